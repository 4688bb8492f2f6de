"""Report a training of the Hugging Face Trainer: one callback, and nothing else changes.

pip install 'prime-async[transformers]' torch accelerate
python examples/bridge_transformers.py
"""

import sys
import tempfile

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from prime_async.bridges import RunCallback

model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2))
tokens = list(range(8))
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    run_name="tiny-gpt2",
    max_steps=5,
    logging_steps=1,
    report_to="none",
    use_cpu=True,
)
with RunCallback(context="local", environments=["counting"]) as callback:
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": tokens, "labels": tokens}] * 20,
        callbacks=[callback],
    )
    trainer.train()  # an exception here would be the reason the run failed for

sys.exit(0 if callback.run is not None else "the training was not reported")
