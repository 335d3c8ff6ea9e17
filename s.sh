vllm serve m --bogus
