#!/usr/bin/env python3
"""Causal attention in PyTorch, forward and backward: what `bench attention` is timed against.

    OMP_NUM_THREADS=2 python3 attention_reference.py --form elu1 --n 4096 --d 64 --heads 8

softmax has its n x n weights in memory, as model.py has. The linear variants go in chunks: within a chunk the weights are
a lower triangle, what came before is a state, and all products are batched over the chunks. Before it is timed a form is
held against model.py's on a short text. Prints one JSON object with medians and minima in milliseconds.
"""
import argparse
import json
import statistics
import time

import torch
from model import ATTN

CHUNK, EPS = 64, 1e-6


def chunked(a, b, v):
  """sum_{s<=t} (a_t.b_s) v_s and sum_{s<=t} a_t.b_s; a, b (B,H,T,m), v (B,H,T,E)"""
  B, H, T, _ = a.shape
  a, b, v = (x.reshape(B, H, T // CHUNK, CHUNK, -1) for x in (a, b, v))
  before = lambda x: x.cumsum(2) - x  # what the chunks before this one add up to
  state, mass = before(b.mT @ v), before(b.sum(3, keepdim=True))
  weights = (a @ b.mT).tril()
  numerator = weights @ v + a @ state
  normaliser = weights.sum(-1, keepdim=True) + a @ mass.mT
  return numerator.reshape(B, H, T, -1), normaliser.reshape(B, H, T, 1)


def normalised(a, b, v):
  numerator, normaliser = chunked(a, b, v)
  return numerator / (normaliser + EPS)


def elu1(q, k, v):
  phi = lambda x: torch.nn.functional.elu(x) + 1
  return normalised(phi(q), phi(k), v)


def cosine(q, k, v):
  """1 + q^.k^ is the product of (1, q^) and (1, k^)"""
  def phi(x):
    unit = x / (x.square().sum(-1, keepdim=True) + EPS * EPS).sqrt()
    return torch.cat([torch.ones_like(x[..., :1]), unit], -1)
  return normalised(phi(q), phi(k), v)


def double_softmax(q, k, v):
  """With one pivot for the whole text: good for keys of moderate spread, and the quickest way"""
  e = (k - k.detach().amax(-2, keepdim=True)).exp()
  return chunked(q.softmax(-1) / e.cumsum(-2), e, v)[0]


def softmax(q, k, v, past=None):
  if past is None:
    past = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
  return ATTN["softmax"](q, k, v, past, EPS)


FORMS = {"softmax": softmax, "elu1": elu1, "cosine": cosine, "double-softmax": double_softmax}


def tensors(batch, heads, n, d):
  return [torch.randn(batch, heads, n, d, requires_grad=True) for _ in range(3)]


def check(form):
  q, k, v = tensors(1, 2, 3 * CHUNK, 16)
  past = torch.ones(3 * CHUNK, 3 * CHUNK, dtype=torch.bool).tril()
  torch.testing.assert_close(FORMS[form](q, k, v), ATTN[form](q, k, v, past, EPS), rtol=1e-3, atol=1e-4)


def main():
  p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  p.add_argument("--form", required=True, choices=FORMS)
  p.add_argument("--n", type=int, default=4096, help=f"tokens, a multiple of {CHUNK}")
  p.add_argument("--d", type=int, default=64)
  p.add_argument("--heads", type=int, default=8)
  p.add_argument("--batch", type=int, default=1)
  p.add_argument("--repeats", type=int, default=5)
  a = p.parse_args()
  if a.n % CHUNK:
    p.error(f"--n must be a multiple of {CHUNK}, and is {a.n}")

  torch.manual_seed(1)
  check(a.form)
  q, k, v = tensors(a.batch, a.heads, a.n, a.d)
  g = torch.randn_like(v)
  extra = [torch.ones(a.n, a.n, dtype=torch.bool).tril()] if a.form == "softmax" else []
  forward, backward = [], []
  for repeat in range(a.repeats + 1):
    began = time.perf_counter()
    o = FORMS[a.form](q, k, v, *extra)
    middle = time.perf_counter()
    o.backward(g)
    ended = time.perf_counter()
    if repeat:  # the first is a warm-up
      forward.append(1e3 * (middle - began))
      backward.append(1e3 * (ended - middle))
  print(json.dumps({"form": a.form, "n": a.n, "d": a.d, "heads": a.heads, "batch": a.batch,
                    "threads": torch.get_num_threads(), "forward_ms": round(statistics.median(forward), 3),
                    "backward_ms": round(statistics.median(backward), 3), "forward_min_ms": round(min(forward), 3),
                    "backward_min_ms": round(min(backward), 3)}))


if __name__ == "__main__":
  main()
