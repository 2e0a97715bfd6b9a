"""SGLang's backends that nothing here can run: one table of reasons instead of adapters nobody has exercised."""

from typing import NoReturn

from costmodel import Attention, Batch
from executors.base import Backend, Knob, Knobs
from hwprofiles import Profile

_NO_DEVICE = "no device of this kind has run it, so there is no adapter"

REFUSED: dict[str, str] = {
    "trtllm_mla": f"trtllm-gen MLA needs compute capability 10.x (XQA MLA: 12.x, 128 heads); {_NO_DEVICE}",
    "cutedsl_mla": f"FlashInfer's CuTe DSL MLA decode needs compute capability 10.x; {_NO_DEVICE}",
    "tokenspeed_mla": f"TokenSpeed's MLA kernels need compute capability 10.x; {_NO_DEVICE}",
    "aiter": f"AITER runs on AMD Instinct; {_NO_DEVICE}",
    "wave": f"Wave runs on AMD Instinct; {_NO_DEVICE}",
    "ascend": f"runs on Ascend NPUs; {_NO_DEVICE}",
    "intel_amx": f"SGLang's AMX kernels run on Xeons with AMX and come with a CPU build of SGLang; {_NO_DEVICE}",
    "intel_xpu": f"runs on Intel GPUs; {_NO_DEVICE}",
    "hpc_ops": f"its package is not public; {_NO_DEVICE}",
    "dsa": "DeepSeek sparse attention needs its indexer, which this project does not run; `flashmla` measures the "
    "attention to selected tokens alone",
    "nsa": "native sparse attention: the older name of `dsa`, with the same needs",
    "qsa": "Qwen's sparse attention needs its indexer, which this project does not run",
    "dsv4": "DeepSeek V4's attention needs its compressed cache layout, which this project does not fill",
    "compressed": "compressed attention: the older name of `dsv4`, with the same needs",
    "minicpm_flashattn": "MiniCPM's sparse attention needs its block index, which this project does not fill",
    "minicpm_flashinfer": "MiniCPM's sparse attention needs its block index, which this project does not fill",
}


class _Refused(Backend):
    """A backend that is known and always says why it cannot run."""

    phases = frozenset({"decode", "extend", "verify", "mixed"})
    devices = frozenset({"cuda", "cpu", "AMD", "Intel", "Huawei"})

    def implementation(self) -> None:
        """Nothing would run."""
        return

    def reject(self, attention: Attention, batch: Batch, profile: Profile) -> list[str]:
        """Give the table's reason."""
        return [REFUSED[self.name]]

    def knobs(self, attention: Attention, batch: Batch, profile: Profile) -> tuple[Knob, ...]:
        """None."""
        return ()

    def prepare(self, inputs: object, knobs: Knobs) -> NoReturn:
        """Refuse.

        Raises:
            ValueError: Always, with the reason.
        """
        raise ValueError(f"{self.name}: {REFUSED[self.name]}")


def __getattr__(name: str) -> type[Backend]:
    """Make the class of one refused backend: the registry names it `executors.backends.refused:<backend>`."""
    if name not in REFUSED:
        raise AttributeError(name)
    return type(name, (_Refused,), {"name": name, "__doc__": REFUSED[name]})
