"""What every registered backend promises, tested over the whole table."""

import subprocess
import sys

import pytest

from costmodel import Attention, Batch, UnknownBackend
from costmodel.knobs import KNOBS
from executors.base import Backend
from executors.registry import BACKENDS, backend_names, get_backend
from hwprofiles import Profile, load_profile

GPU = load_profile("h200")
CPU = Profile(id="test-cpu", name="a CPU", vendor="AMD", kind="cpu", architecture="x86-64", num_sms=2)
AMD_GPU = Profile(id="test-amd", name="an AMD GPU", vendor="AMD", kind="gpu", architecture="CDNA 3")
GQA = Attention(32, 8, 128)
ATTENTIONS = (
    GQA,
    Attention(8, 8, 64, dtype="fp16", kv_dtype="fp16"),
    Attention(64, 8, 64, sliding_window=128, sinks=True),
    Attention(16, 8, 256, logit_soft_cap=50.0),
    Attention(32, 8, 128, kv_dtype="fp8_e4m3"),
    Attention.mla(128),
    Attention.mla(16, form="expanded"),
    Attention.sparse(Attention.mla(128), top_k=2048),
)
BATCHES = (
    Batch.decode([4096] * 4, page_size=64),
    Batch.decode([100, 3000]),
    Batch.extend([512], [512]),
    Batch.extend([512, 1], [2048, 900], page_size=64),
    Batch.verify([300, 4000], 4, page_size=64),
    Batch.verify([300, 4000], 8, topk=4),
)
WORKLOADS = [(a, b, p) for a in ATTENTIONS for b in BATCHES for p in (GPU, CPU)]


@pytest.mark.parametrize("name", BACKENDS)
def test_the_table_leads_to_a_backend_of_that_name(name: str) -> None:
    assert get_backend(name).name == name


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownBackend, match="fa3"):
        get_backend("fa33")


@pytest.mark.parametrize("backend", backend_names())
def test_knobs_are_named_once_with_distinct_values(backend: str) -> None:
    for attention, batch, profile in _accepted(get_backend(backend)):
        knobs = get_backend(backend).knobs(attention, batch, profile)
        assert len({k.name for k in knobs}) == len(knobs)
        for knob in knobs:
            assert knob.values
            assert len(set(map(repr, knob.values))) == len(knob.values), knob
            assert knob.via in ("sglang_flag", "sglang_env", "library")


@pytest.mark.parametrize("backend", backend_names())
def test_the_first_point_has_every_default_and_all_points_the_same_knobs(backend: str) -> None:
    for attention, batch, profile in _accepted(get_backend(backend)):
        points = get_backend(backend).points(attention, batch, profile)
        knobs = get_backend(backend).knobs(attention, batch, profile)
        assert dict(points[0].knobs) == {knob.name: knob.values[0] for knob in knobs}
        assert len({p.key for p in points}) == len(points)
        assert {tuple(p.knobs) for p in points} == {tuple(k.name for k in knobs)}


@pytest.mark.parametrize("backend", [name for name in backend_names() if name in KNOBS])
def test_the_cost_model_knows_every_knob_value(backend: str) -> None:
    specs = {spec.name: spec for spec in KNOBS[backend]}
    for attention, batch, profile in _accepted(get_backend(backend)):
        for knob in get_backend(backend).knobs(attention, batch, profile):
            for value in knob.values:
                specs[knob.name].check(backend, value)


@pytest.mark.parametrize("backend", backend_names())
def test_what_is_not_declared_is_rejected(backend: str) -> None:
    subject = get_backend(backend)
    nvfp4 = Attention(32, 8, 128, kv_dtype="nvfp4")
    if "nvfp4" not in subject.kv_dtypes:
        assert subject.reject(nvfp4, BATCHES[0], GPU)
    for profile, kind in ((GPU, "cuda"), (CPU, "cpu"), (AMD_GPU, "AMD")):
        if kind not in subject.devices:
            assert subject.reject(GQA, BATCHES[0], profile)
    for batch in BATCHES:
        if batch.phase not in subject.phases:
            assert subject.reject(GQA, batch, GPU)


@pytest.mark.parametrize("backend", backend_names())
def test_reasons_are_whole_and_not_repeated(backend: str) -> None:
    for attention, batch, profile in WORKLOADS:
        reasons = get_backend(backend).reject(attention, batch, profile)
        assert all(isinstance(r, str) and r.strip() for r in reasons)
        assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize("backend", backend_names())
def test_a_missing_library_comes_with_a_way_to_get_it(backend: str) -> None:
    subject = get_backend(backend)
    if subject.implementation() is None and _accepted(subject):
        assert "pip install" in subject.install_hint


def test_asking_all_backends_imports_no_kernel_library() -> None:
    code = (
        "import sys\n"
        "from costmodel import Attention, Batch\n"
        "from executors.live import Catalogue\n"
        "from hwprofiles import load_profile\n"
        "args = Attention(32, 8, 128), Batch.decode([4096]), load_profile('h200')\n"
        "Catalogue().candidates(*args); Catalogue().rejections(*args)\n"
        "found = {'torch', 'triton', 'flashinfer', 'sglang', 'flash_attn'} & set(sys.modules)\n"
        "sys.exit(f'imported {found}' if found else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def _accepted(backend: Backend) -> list[tuple[Attention, Batch, Profile]]:
    return [(a, b, p) for a, b, p in WORKLOADS if not backend.reject(a, b, p)]
