#!/usr/bin/env python3
"""Trains the reference character model in PyTorch: the run that the README's numbers are checked against.

    OMP_NUM_THREADS=1 python3 train_reference.py --attn double-softmax --seed 1 --data tinyshakespeare.txt

4 layers, 4 heads, width 128, context 64, batch 12, 2,000 steps; AdamW .9/.99, decay .1 on everything of two or more
dimensions; lr 1e-3 after a linear warm-up of 100 steps, then a cosine to 1e-4 at the last step; gradient norm clipped
to 1; no biases, no dropout; first nine tenths of the text for training. Every 250 steps one JSON line with the loss over
the whole validation text, in windows of the context, a shorter tail
left out, and the median time of a step so far. With other sizes and --no-eval it is the peer of `bench train`.
"""
import argparse
import json
import math
import statistics
import time

import torch
from model import ATTN, GPT, adamw, char_ids, read_text, split, text_loss

WARMUP, LR, MIN_LR, EVERY = 100, 1e-3, 1e-4, 250


def rate(step, steps):
  if step < WARMUP:
    return LR * (step + 1) / (WARMUP + 1)
  done = (step - WARMUP) / max(1, steps - WARMUP)
  return MIN_LR + 0.5 * (LR - MIN_LR) * (1 + math.cos(math.pi * done))


def draw(ids, batch, block):
  start = torch.randint(len(ids) - block, (batch, 1))
  at = start + torch.arange(block)
  return ids[at], ids[at + 1]


def main():
  p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  p.add_argument("--attn", default="softmax", choices=ATTN)
  p.add_argument("--seed", type=int, default=1337)
  p.add_argument("--data", required=True, metavar="TEXT")
  p.add_argument("--steps", type=int, default=2000)
  p.add_argument("--n-layer", type=int, default=4)
  p.add_argument("--n-head", type=int, default=4)
  p.add_argument("--n-embd", type=int, default=128)
  p.add_argument("--block-size", type=int, default=64)
  p.add_argument("--batch-size", type=int, default=12)
  p.add_argument("--no-eval", action="store_true", help="only the time of a step, once, at the end")
  a = p.parse_args()

  torch.manual_seed(a.seed)
  chars, ids = char_ids(read_text(a.data))
  train, val = split(ids)
  model = GPT(len(chars), a.n_layer, a.n_head, a.n_embd, a.block_size, attn=a.attn)
  optim = adamw(model, LR)
  begin = time.perf_counter()
  steps = []
  for step in range(a.steps + 1):
    if step == a.steps or (step % EVERY == 0 and not a.no_eval):
      loss = {} if a.no_eval else {"val_loss": round(text_loss(model, val), 4)}
      print(json.dumps({"attn": a.attn, "seed": a.seed, "step": step, **loss,
                        "seconds": round(time.perf_counter() - begin, 1),
                        "ms_per_step": round(1e3 * statistics.median(steps or [0]), 2)}), flush=True)
    if step == a.steps:
      break
    started = time.perf_counter()
    for group in optim.param_groups:
      group["lr"] = rate(step, a.steps)
    optim.zero_grad()
    model.loss(*draw(train, a.batch_size, a.block_size)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optim.step()
    steps.append(time.perf_counter() - started)


if __name__ == "__main__":
  main()
