"""Run every case under Triton's interpreter and print its error and tolerance as JSON; started by the tests."""

import json
import os
import sys
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

from executors.backends.attnroof_triton import AttnroofTriton
from executors.compare import compare
from executors.inputs import make_inputs
from executors.reference import make_reference
from tests.executors.kernels.cases import CASES


def _accept_numpy_2_4() -> None:
    """Let loop bounds be one-element arrays: Triton 3.6 interprets scalars so, NumPy 2.4 refuses to convert them."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: type, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched


def main() -> None:
    _accept_numpy_2_4()
    names = sys.argv[1:] or list(CASES)
    results = {}
    for name in names:
        case = CASES[name]
        inputs = make_inputs(case.attention, case.batch, "cpu", seed=3, slots=2)
        prepared = AttnroofTriton().prepare(inputs, case.knobs)
        accuracy = compare(prepared.run(1), make_reference(inputs, slot=1))
        results[name] = {"error": accuracy.max_error, "tolerance": accuracy.tolerance, "path": prepared.path}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
