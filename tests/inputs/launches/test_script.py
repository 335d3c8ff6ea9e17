"""Scripts as files: labels, hints of batch systems, byte order marks."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches import script
from cgplan.inputs.launches.launch import Source


def test_labels() -> None:
    text = "#!/bin/bash\nvllm serve a &\nvllm serve b\n"
    assert [launch.label for launch in script.launches(Source("x.sh", text)).launches] == ["line 2", "line 3"]
    assert [launch.label for launch in script.launches(Source("x.sh", "vllm serve a")).launches] == [""]


@pytest.mark.parametrize(
    ("lines", "gpus", "gpu"),
    [
        ("#SBATCH --gpus-per-node=8", 8, None),
        ("#SBATCH --gres=gpu:h100:4", 4, "h100"),
        ("#SBATCH --gres gpu:2", 2, None),
        ("#SBATCH --gpus-per-node=4\n#SBATCH -G 16", 4, None),
        ("#SBATCH --gres=gpu:nonesuch:4", 4, None),
        ("#SBATCH --nodes=2", None, None),
        ("# SBATCH --gres=gpu:4", None, None),
    ],
)
def test_hints_of_slurm(lines: str, gpus: int | None, gpu: str | None) -> None:
    source = Source("x.sbatch", f"#!/bin/bash\n{lines}\nsrun vllm serve m\n")
    (launch,) = script.launches(source).launches
    assert (launch.hints.gpus, launch.hints.gpu) == (gpus, gpu)


def test_visible_devices_go_before_the_batch() -> None:
    source = Source("x.sh", "#SBATCH --gres=gpu:8\nCUDA_VISIBLE_DEVICES=0,1 vllm serve m\n")
    assert script.launches(source).launches[0].hints.gpus == 2


def test_a_byte_order_mark() -> None:
    text = "\ufeffvllm serve m"
    (launch,) = script.launches(Source("x.sh", text)).launches
    assert launch.texts == ["vllm", "serve", "m"]
    assert launch.tokens[0].span.start == 1


def test_windows_line_ends() -> None:
    (launch,) = script.launches(Source("x.sh", "vllm serve m \\\r\n  --x 1\r\n")).launches
    assert launch.texts == ["vllm", "serve", "m", "--x", "1"]
