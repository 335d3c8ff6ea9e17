"""`cgplan logs` of what cgplan has no rules of its own for: a plugin's platform, and a release before 0.19."""

from __future__ import annotations

from pathlib import Path

from log_lines import BANNER, Run, arguments, document, line, written


class TestAPluginsPlatform:
    LINES = (
        "INFO 09-30 12:00:00 [__init__.py:217] Platform plugin ascend is activated\n",
        BANNER,
        arguments(model="Qwen/Qwen3-8B", max_num_seqs=12, cudagraph_capture_sizes=[1, 2, 4, 8]),
        line("Available KV cache memory: 26.87 GiB"),
    )

    def test_whose_rules_they_are_without_a_gpu(self, cgplan: Run, tmp_path: Path) -> None:
        log = written(tmp_path / "ascend.log", *self.LINES)
        for words in ((), ("--no-plan",)):
            _, out, _ = cgplan("logs", log, *words)
            plain = " ".join(out.split())
            assert "warning CG831" in plain
            assert "those of vLLM Ascend, and not by vLLM's for CUDA" in plain
            assert "batches of 9 to 12 requests have no graph" in plain
            assert "the plan is by CUDA's rules" not in plain
        assert "--gpu names it" not in " ".join(cgplan("logs", log)[1].split())

    def test_not_of_vllms_own(self, cgplan: Run, tmp_path: Path) -> None:
        _, out, _ = cgplan("logs", written(tmp_path / "cuda.log", *self.LINES[1:]))
        assert "CG831" not in out
        assert "--gpu names it" in " ".join(out.split())


class TestC20:
    """A release before 0.19: graphs were in no budget, 0.95 ran out of memory and 0.90 worked."""

    LINES = (
        "INFO 12-20 10:00:00 api_server.py:652] vLLM API server version 0.6.4.post1\n",
        "INFO 12-20 10:00:01 [u.py:1] non-default args: {'model': 'meta-llama/Llama-3.2-3B-Instruct', 'max_model_len':"
        " 40000, 'tensor_parallel_size': 2, 'gpu_memory_utilization': 0.95}\n",
        "INFO 12-20 10:00:40 worker.py:232] Memory profiling results: total_gpu_memory=15.77GiB"
        " initial_memory_usage=7.90GiB peak_torch_memory=10.04GiB memory_usage_post_profile=7.99GiB"
        " non_torch_memory=0.39GiB kv_cache_size=3.76GiB gpu_memory_utilization=0.95\n",
        "Traceback (most recent call last):\n",
        '  File "/x/vllm/worker/model_runner.py", line 1500, in capture_model\n',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of"
        " 15.77 GiB of which 11.12 MiB is free. Including non-PyTorch memory, this process has 15.75 GiB memory in"
        " use. Of the allocated memory 14.20 GiB is allocated by PyTorch, with 62.00 MiB allocated in private pools"
        " (e.g., CUDA Graphs), and 12.00 MiB is reserved by PyTorch but unallocated.\n",
    )

    def test_the_graphs_come_on_top(self, cgplan: Run, tmp_path: Path) -> None:
        found = document(cgplan, written(tmp_path / "v0.log", *self.LINES), "--gpu", "v100-16", status=1)
        crash = found["starts"][0]["crash"]
        assert crash["code"] == "CG507"
        assert "graphs come on top of what --gpu-memory-utilization asks for" in crash["what"]
        assert crash["fix"] == "--gpu-memory-utilization 0.9, or --enforce-eager"
        assert found["starts"][0]["rules_of"] == "0.19.1"

    def test_since_they_are_kept_back_they_do_not(self, cgplan: Run, tmp_path: Path) -> None:
        lines = [text.replace("0.6.4.post1", "0.30.0") for text in self.LINES]
        found = document(cgplan, written(tmp_path / "v1.log", *lines), "--gpu", "v100-16", status=1)
        assert "on top" not in found["starts"][0]["crash"]["what"]
