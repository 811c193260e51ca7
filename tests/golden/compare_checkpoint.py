#!/usr/bin/env python3
"""Loads a Lina checkpoint into the PyTorch model and prints its loss on the validation part of a text, as JSON.

    python3 compare_checkpoint.py runs/elu1/best.h5 tinyshakespeare.txt

The number to compare with: what `train --init-from CHECKPOINT --eval-only --data TEXT` prints. Uses /params, the root
attribute config and /tokenizer of the file, nothing else of it. Exit code 77: PyTorch or h5py is not here; 4: the
checkpoint is not one that model.py can hold; 3: the text does not go with it.
"""
import json
import sys

try:
  import h5py
  import torch
except ImportError as e:
  print(f"skipped: {e}")
  sys.exit(77)
from model import ATTN, GPT, read_text, split, text_loss


def fail(code, message):
  print(f"compare_checkpoint: {message}", file=sys.stderr)
  sys.exit(code)


def string(x):
  return x.decode() if isinstance(x, bytes) else str(x)


def read_config(text):
  """Lines `key = value`, # begins a comment; `_` and `-` in keys are the same."""
  lines = (line.split("#")[0].partition("=") for line in text.splitlines())
  return {key.strip().replace("_", "-"): value.strip() for key, sep, value in lines if sep}


def build(config, vocab):
  attn, _, keys = config.get("attn", "softmax").partition(":")
  eps = dict(key.split("=") for key in keys.split(",") if key).get("eps", config.get("eps", 1e-6))
  if attn not in ATTN:
    fail(4, f"attention {attn} is not in model.py, which has {', '.join(ATTN)}")
  pos = config.get("pos", "learned")
  if pos not in ("learned", "none"):
    fail(4, f"model.py has learned positions or none, not {pos}")
  bias = config.get("bias", "off").lower() in ("1", "on", "true", "yes")
  return GPT(vocab, n_layer=int(config["n-layer"]), n_head=int(config["n-head"]), n_embd=int(config["n-embd"]),
             block=int(config["block-size"]), attn=attn, pos=pos, bias=bias, eps=float(eps))


def token_ids(tokenizer, path):
  kind = string(tokenizer.attrs["kind"])
  if kind == "byte":
    with open(path, "rb") as f:
      return torch.tensor(list(f.read()))
  if kind != "char":
    fail(4, f"tokenizer {kind} is not known here")
  number = {chr(c): i for i, c in enumerate(tokenizer["codepoints"][:].tolist())}
  text = read_text(path)
  unknown = set(text) - set(number)
  if unknown:
    fail(3, f"{path} has {len(unknown)} characters that the checkpoint has not, such as {min(unknown)!r}")
  return torch.tensor([number[c] for c in text])


def main():
  if len(sys.argv) != 3:
    fail(2, "usage: compare_checkpoint.py CHECKPOINT.h5 TEXT")
  with h5py.File(sys.argv[1], "r") as f:
    config = read_config(string(f.attrs["config"]))
    state = {name: torch.from_numpy(array[()]) for name, array in f["params"].items()}
    ids = token_ids(f["tokenizer"], sys.argv[2])
  state.setdefault("lm_head.weight", state["transformer.wte.weight"])
  model = build(config, len(state["transformer.wte.weight"]))
  try:
    model.load_state_dict(state)
    _, val = split(ids, float(config.get("val-frac", 0.1)))
    loss = text_loss(model, val)
  except RuntimeError as e:
    fail(4, e)
  except ValueError as e:
    fail(3, f"validation part of {sys.argv[2]}: {e}")
  print(json.dumps({"attn": config.get("attn", "softmax"), "val_tokens": len(val), "val_loss": round(loss, 6)}))


if __name__ == "__main__":
  main()
