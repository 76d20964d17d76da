"""The encoder's own linear layers, GELU and dropout against torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers.activations import GELUActivation

from carp.model import cpu_layers
from carp.model.carp_model import CarpModel
from carp.model.cpu_dropout import CpuDropout, attend_with_dropout, dropout
from carp.model.cpu_layers import CpuGelu, CpuLinear, use_cpu_layers
from carp.model.unpadded import Layout, attend_runs


@pytest.fixture(autouse=True, params=["oneDNN", "torch"])
def product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries, whoever made this machine's CPU."""
    monkeypatch.setattr(cpu_layers, "_product", cpu_layers.onednn_product() if request.param == "oneDNN" else None)


def gradients(layer: nn.Module, states: Tensor) -> list[Tensor]:
    states = states.clone().requires_grad_()
    found = layer(states)
    weights = torch.linspace(-1, 1, found.numel()).view_as(found)
    return [found, *torch.autograd.grad((found * weights).sum(), [states, *layer.parameters()])]


@pytest.mark.parametrize("shape", [(1, 77, 24), (5, 24), (24,)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_and_their_gradients_are_torchs(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(24, 40, bias=bias)
    states = torch.randn(shape)
    expected = gradients(plain, states)
    use_cpu_layers(plain)
    assert type(plain) is CpuLinear
    for ours, torchs in zip(gradients(plain, states), expected, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-5)


def feed_forward() -> nn.Sequential:
    return nn.Sequential(nn.Linear(24, 96), GELUActivation(), nn.Linear(96, 24))


@pytest.mark.parametrize("autocast", [False, True])
def test_gelu_between_linear_layers_has_the_gradients_of_torchs(autocast: bool) -> None:
    torch.manual_seed(0)
    layers, states = feed_forward(), torch.randn(1, 77, 24)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        expected = gradients(layers, states)
        use_cpu_layers(layers)
        assert type(layers[1]) is CpuGelu
        for ours, torchs in zip(gradients(layers, states), expected, strict=True):
            torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-5)


def test_no_graph_keeps_what_gelu_computed() -> None:
    layers, kept = feed_forward(), {}
    use_cpu_layers(layers)
    parameters = {p.data_ptr() for p in layers.parameters()}

    def keep(saved: Tensor) -> Tensor:
        kept[saved.data_ptr()] = saved.nbytes
        return saved

    states = torch.randn(10, 24)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        found = layers(states)
    found.sum().backward()
    # The input of the first layer and that of GELU, four bytes an element.
    assert sorted(n for pointer, n in kept.items() if pointer not in parameters) == [10 * 24 * 4, 10 * 96 * 4]


def test_other_precisions_and_autocast_are_left_to_torch() -> None:
    layer = CpuLinear(8, 8)
    states = torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(states).dtype == torch.bfloat16
    assert layer.double()(states.double()).dtype == torch.float64


def test_frozen_weights_get_no_gradient() -> None:
    layer = CpuLinear(8, 8)
    layer.weight.requires_grad_(False)
    states = torch.randn(3, 8, requires_grad=True)
    layer(states).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(states.grad, layer.weight.sum(0).expand(3, 8))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_zeroes_the_right_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    states = torch.ones(999, 1001)  # not a multiple of the four elements of a draw
    found = dropout(states, p)
    assert (found == 0).double().mean().item() == pytest.approx(p, abs=0.003)
    assert found.mean().item() == pytest.approx(1, abs=0.01)
    kept = found[found != 0]
    assert kept.unique().numel() == 1
    # No element depends on its neighbours.
    zero = (found == 0).double().flatten()
    assert (zero[1:] * zero[:-1]).mean().item() == pytest.approx(p * p, abs=0.005)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_at_its_ends(p: float) -> None:
    states = torch.randn(10)
    assert torch.equal(dropout(states, p), states * (1 - p))


def test_dropout_repeats_with_the_random_state_and_rests_in_evaluation() -> None:
    layer, states = CpuDropout(0.3), torch.randn(50)
    torch.manual_seed(1)
    first = layer(states)
    torch.manual_seed(1)
    assert torch.equal(layer(states), first)
    assert not torch.equal(layer(states), first)
    assert layer.eval()(states) is states


def test_attention_with_dropout_has_the_mean_of_attention_without() -> None:
    torch.manual_seed(0)
    layout = Layout.of(torch.tensor([5, 5, 3]), torch.device("cpu"))
    query, key, value = torch.randn(3, 13, 2, 8, dtype=torch.float64)
    expected = attend_runs(query, key, value, layout, 0.0, None)
    found = torch.stack([attend_runs(query, key, value, layout, 0.2, None) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.06)
    # A probability that rounds to none: the arithmetic alone.
    exact = attend_runs(query, key, value, layout, 1e-14, None)
    torch.testing.assert_close(exact, expected, rtol=1e-12, atol=1e-12)


def test_the_gradients_of_dropout_and_of_attention_with_it_are_those_of_what_they_compute() -> None:
    query, key, value = torch.randn(3, 2, 3, 5, 4, dtype=torch.float64, requires_grad=True)

    def repeated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*tensors: Tensor) -> Tensor:
            torch.manual_seed(0)
            return function(*tensors)

        return call

    attend = repeated(lambda *rows: attend_with_dropout(*rows, 0.3, None))
    assert torch.autograd.gradcheck(attend, (query, key, value))
    assert torch.autograd.gradcheck(repeated(lambda states: dropout(states, 0.3)), (query,))


def test_attention_drops_the_weights_that_dropout_drops() -> None:
    query, key, value = torch.randn(3, 2, 3, 5, 4)
    torch.manual_seed(0)
    found = attend_with_dropout(query, key, value, 0.3, 0.7)
    torch.manual_seed(0)
    expected = dropout((0.7 * query @ key.transpose(-1, -2)).softmax(-1), 0.3) @ value
    torch.testing.assert_close(found, expected)


def test_graphs_keep_a_byte_for_an_element_of_a_mask() -> None:
    kept = []
    states = torch.randn(100, 7, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: kept.append(saved.nbytes) or saved, lambda saved: saved
    ):
        dropout(states, 0.1)
    assert kept == [states.numel()]


def test_encoders_have_these_layers_however_they_are_made(model: CarpModel) -> None:
    kinds = {type(module) for module in model.passage_tower.encoder.modules()}
    assert {CpuLinear, CpuDropout, CpuGelu} <= kinds
    assert not {nn.Linear, nn.Dropout, GELUActivation} & kinds
