"""Photograph what comes out of a fit: `python docs/screens.py` runs `mgce demo` and shows its report and review page.

The script needs Chromium, and writes `docs/images/report.png` and `docs/images/review.png`.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 620, 640  # as wide as a page needs so that its letters stay legible at half of this on a phone


def main() -> None:
    """Write both pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("No Chromium was found.")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "mgce-demo")
        for command in ("demo", "review mgce-demo/breast_cancer.suspects.csv"):
            subprocess.run(["mgce", *command.split()], cwd=folder, check=True, capture_output=True)
        for page, name in (("breast_cancer.html", "report.png"), ("breast_cancer.review.html", "review.png")):
            shot = [
                "--no-sandbox",
                "--hide-scrollbars",
                "--force-device-scale-factor=1.5",
                f"--screenshot={made / name}",
            ]
            where = [f"--window-size={WIDTH},{HEIGHT}", (made / page).as_uri()]
            subprocess.run([browser, "--headless", *shot, *where], check=True, capture_output=True)
            # 64 colours: letters on a plain ground need no more, and the file is a third as large.
            Image.open(made / name).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(
                IMAGES / name, optimize=True
            )


if __name__ == "__main__":
    main()
