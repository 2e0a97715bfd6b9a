"""Run in a process of its own under Triton's interpreter: the fused kernels against PyTorch's operations."""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from executors.steps import elementwise_torch as plain
from executors.steps import elementwise_triton as fused
from executors.steps.elementwise import Heads, Rotation

torch.manual_seed(int(sys.argv[1]))
EPS, TOKENS = 1e-5, 3


def close(name: str, a: torch.Tensor, b: torch.Tensor) -> None:
    error = float((a - b).abs().max())
    assert error < 4e-6, f"{name}: {error}"
    print(f"{name} agrees")


def rotation(width: int) -> Rotation:
    return Rotation(torch.randn(9, width), torch.tensor([8, 0, 5]), EPS)


def heads(count: int, width: int, norm: bool, into: torch.Tensor) -> Heads:
    return Heads(torch.randn(TOKENS, count, width + 3)[..., 3:], into, torch.randn(width) if norm else None)


x, weight = torch.randn(TOKENS, 100), torch.randn(100)
close("norm", fused.norm(x, weight, EPS), plain.norm(x, weight, EPS))
wide = torch.randn(TOKENS, 130)
out = torch.zeros(TOKENS, 120)
fused.norm(wide[:, 7:107], weight, EPS, out[:, :100])
close("strided norm", out[:, :100], plain.norm(wide[:, 7:107], weight, EPS))
close("norm leaves the rest", out[:, 100:], torch.zeros(TOKENS, 20))

residuals = [torch.randn(TOKENS, 100)] * 2
residuals = [r.clone() for r in residuals]
normed = [form.add_norm(x, r, weight, EPS) for form, r in zip((fused, plain), residuals, strict=True)]
close("add and norm", *normed)
close("residual", *residuals)

for norm in (False, True):
    targets = [[torch.zeros(TOKENS, n, 24) for n in (11, 2, 2)] for _ in range(2)]
    parts = [heads(n, 24, norm and n_index < 2, targets[0][n_index]) for n_index, n in enumerate((11, 2, 2))]
    turn = rotation(24)
    fused.rotate(*parts, turn)
    copies = [Heads(p.source, t, p.norm) for p, t in zip(parts, targets[1], strict=True)]
    plain.rotate(*copies, turn)
    for name, a, b in zip("qkv", *targets, strict=True):
        close(f"rotate {name}, norm {norm}", a, b)

caches = [[torch.zeros(4, 2, n, 12) for n in (2, 2)] for _ in range(2)]
new, rows = (torch.randn(TOKENS, 2, 12), torch.randn(TOKENS, 2, 12)), torch.tensor([7, 0, 3])
for form, cache in zip((fused, plain), caches, strict=True):
    form.store(new, tuple(cache), rows)
close("stored keys", caches[0][0], caches[1][0])
close("stored values", caches[0][1], caches[1][1])
for form, cache in zip((fused, plain), caches, strict=True):
    form.store(new[1:], tuple(cache[:1]), rows)
close("stored latents", caches[0][0], caches[1][0])
close("gate", fused.gate(torch.cat([x, x.flip(0)], 1)), plain.gate(torch.cat([x, x.flip(0)], 1)))
