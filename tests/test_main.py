import subprocess
import sys


def test_the_package_runs_as_a_module(tmp_path):
    result = subprocess.run([sys.executable, "-m", "mgce", "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "reproduce" in result.stdout and "certify" in result.stdout
