#!/usr/bin/env python3
"""Makes a PyTorch model and writes its state_dict with h5py: what somebody who comes from PyTorch would bring along.

    python3 export_state_dict.py OUT.h5 --attn elu1 --data tinyshakespeare.txt [--seed 1] [--bias] [--n-layer 4] ..

Prints the loss on the validation part of the text as JSON; it is what
`train --init-from OUT.h5 --trust-file --eval-only --attn elu1 --data tinyshakespeare.txt` must print (with the same shape options).
The datasets stand at the root under the state_dict's keys, float32; lm_head.weight is a hard link to
transformer.wte.weight. The weights are --gain times the usual start, and norm weights and biases are moved off 1 and
0, so that the loss is far from ln V and shows a mistake. Exit code 77: PyTorch or h5py is not here.
"""
import argparse
import json
import sys

try:
  import h5py
  import torch
except ImportError as e:
  print(f"skipped: {e}")
  sys.exit(77)
from model import ATTN, GPT, char_ids, read_text, split, text_loss


def main():
  p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  p.add_argument("out", metavar="OUT.h5")
  p.add_argument("--data", required=True, metavar="TEXT")
  p.add_argument("--attn", default="softmax", choices=ATTN)
  p.add_argument("--pos", default="learned", choices=("learned", "none"))
  p.add_argument("--bias", action="store_true")
  p.add_argument("--seed", type=int, default=1)
  p.add_argument("--gain", type=float, default=8)
  for name, value in {"n-layer": 4, "n-head": 4, "n-embd": 128, "block-size": 64}.items():
    p.add_argument("--" + name, type=int, default=value)
  a = p.parse_args()

  torch.manual_seed(a.seed)
  chars, ids = char_ids(read_text(a.data))
  model = GPT(len(chars), a.n_layer, a.n_head, a.n_embd, a.block_size, a.attn, a.pos, a.bias)
  with torch.no_grad():
    for w in model.parameters():
      if w.dim() >= 2:
        w *= a.gain
      else:
        w += 0.2 * torch.randn_like(w)

  with h5py.File(a.out, "w") as f:
    for name, w in model.state_dict().items():
      if name != "lm_head.weight":
        f[name] = w.numpy()
    f["lm_head.weight"] = f["transformer.wte.weight"]  # h5py: assigning an object makes a hard link
  _, val = split(ids)
  print(json.dumps({"attn": a.attn, "val_tokens": len(val), "val_loss": round(text_loss(model, val), 6)}))


if __name__ == "__main__":
  main()
