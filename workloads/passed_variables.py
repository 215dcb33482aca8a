"""The variables of this computer that a training gets: what programs and libraries need, and nobody's credentials.

Imports nothing but the standard library: the supervisor of a process does too (providers/local/supervise.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|TEMP|TMP|PWD|DISPLAY|COLUMNS|LINES"
    r"|(LD_LIBRARY|DYLD_LIBRARY|DYLD_FALLBACK_LIBRARY|LIBRARY|C_INCLUDE|CPLUS_INCLUDE)_PATH|LD_PRELOAD|CC|CXX"
    r"|PYTHON\w*|VIRTUAL_ENV|CONDA_(PREFIX|DEFAULT_ENV|SHLVL|EXE|PYTHON_EXE)|XDG_\w+"
    r"|(HTTPS?|FTP|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
    r"|(CUDA|NVIDIA|NCCL|CUDNN|CUBLAS|ROCM|HIP|HSA|ROCR|GPU|TPU|PJRT|LIBTPU)_\w+|CUDA_?HOME"
    r"|(TF(?!_VAR_|_CLI_)|XLA|JAX|KERAS|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|NUMEXPR|VECLIB|DNNL|ONEDNN)_\w+"
    r"|MALLOC_\w+|(HF|HUGGINGFACE)_(HOME|HUB_OFFLINE|DATASETS_\w+|HUB_CACHE)|TRANSFORMERS_\w+|MPLBACKEND|MPLCONFIGDIR"
    r"|SLURM_\w+|SLURMD_\w+|(OMPI|PMI|PMIX|MPI|UCX)_\w+|(MASTER_(ADDR|PORT))|((LOCAL_)?(WORLD_SIZE|RANK))"
    r"|TRAINPLAN_\w+|CI"
    r"|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|USERPROFILE|HOMEDRIVE|HOMEPATH|(LOCAL)?APPDATA|PROGRAMDATA"
    r"|PROGRAMFILES(\(X86\))?|NUMBER_OF_PROCESSORS|PROCESSOR_\w+|OS",
    re.IGNORECASE | re.ASCII,
)
_NEVER = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(API|ACCESS|PRIVATE|ACCOUNT)_?KEY|JWT", re.IGNORECASE)
"""In the middle of a name that would pass otherwise: HF_TOKEN, SLURM_JWT."""


def passed_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of `variables` that a training gets: without credentials, whatever they are called."""
    return {name: value for name, value in variables.items() if _NAMES.fullmatch(name) and not _NEVER.search(name)}
