import torch

from mgce_lab.training.ensemble import ROWS_AT_ONCE, EnsembleMLP, Scratch


def plain(layers, x):
    for depth, (weight, bias) in enumerate(layers):
        x = (torch.relu(x) if depth else x) @ weight + bias
    return x


def model_of_noise(groups=2, members=3, sizes=(4, 8, 6, 5)):
    generators = [torch.Generator().manual_seed(group) for group in range(groups)]
    model = EnsembleMLP.initial(members, sizes, generators, torch.zeros((), dtype=torch.double))
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    return model


def one_of(model, number):
    return [(w[number], b[number]) for w, b in zip(model.weights, model.biases, strict=True)]


def test_forward_is_that_of_the_single_networks():
    model, features = model_of_noise(), torch.randn(2, 2 * ROWS_AT_ONCE + 3, 4, dtype=torch.double)
    logits = model(features)
    assert logits.shape == (2, 3, 2 * ROWS_AT_ONCE + 3, 5)
    for g in range(2):
        for m in range(3):
            torch.testing.assert_close(logits[g, m], plain(one_of(model, 2 * m + g), features[g]))


def test_backward_is_that_of_autograd():
    model, features = model_of_noise(), torch.randn(2, 7, 4, dtype=torch.double)
    grad, scratch = torch.randn(6, 7, 5, dtype=torch.double), Scratch()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(2):  # the second time in memory that is used
        outputs = model.layers(features, scratch)
        model.backward(outputs, grad, scratch)
    for number in range(6):
        wanted = [p.grad[number] for p in (*model.weights, *model.biases)]
        weights, biases = zip(*one_of(model, number), strict=True)
        leaves = [p.detach().requires_grad_() for p in (*weights, *biases)]
        logits = plain(list(zip(leaves[:3], leaves[3:], strict=True)), features[number % 2])
        torch.testing.assert_close(wanted, list(torch.autograd.grad(logits, leaves, grad[number])))


def test_members_of_a_group_start_alike_and_groups_do_not():
    model = EnsembleMLP.initial(3, (4, 8, 5), [torch.Generator().manual_seed(0)] * 2)
    weights = model.grid(model.weights[0].detach())
    assert torch.equal(weights[0, 0], weights[0, 2])
    assert not torch.equal(weights[0, 0], weights[1, 0])
    assert model.weights[0].abs().max() <= 1 / 4**0.5 and model.weights[1].abs().max() <= 1 / 8**0.5


def test_ensembles_side_by_side():
    models = [model_of_noise(members=m) for m in (1, 3)]
    features = torch.randn(2, 7, 4, dtype=torch.double)
    joined = EnsembleMLP.joined(models)(features)
    torch.testing.assert_close(joined, torch.cat([model(features) for model in models], dim=1), rtol=0, atol=0)
