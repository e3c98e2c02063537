from paper.letter_records import as_run, letter

from mgce_lab.paper import figure6


def test_figure6_counts_epochs_and_convergence():
    run = as_run(*(letter(m, 1.4, 0, 0.9, a, noise_rate=0.0) for m, a in (("mgce", 0.6), ("gce", 0.5))))
    result = figure6.render([run])
    assert "GCE ends at 50.00 % after 2 epochs; MGCE reaches it in epoch 1" in result.notes["letter/convergence"]
    assert "1 - V_1.40 in 1 of 2 epochs" in result.notes["letter/objective"]  # 1 - .3 > .6, 1 - .6 < .5
    assert result.image.startswith(b"\x89PNG")
