#!/usr/bin/env python3
"""Writes tiny.txt: logits, losses, gradients and ten AdamW steps of a tiny GPT in double precision, from PyTorch.

    python3 make_golden.py [tiny.txt]

The model: V=11, n_layer=2, n_head=2, C=12, block=9, learned positions; B=2, T=9. Everything C must know is a formula:

  parameter p (0,1,2,.. in the order of named_parameters: wte, wpe, h.0.ln_1.weight, h.0.ln_1.bias, h.0.attn.c_attn.weight,
    its bias, .., ln_f; lm_head is tied and has no number), element i in row-major order, s = sin(1.7*(i+1) + 0.9*(p+1)):
    1 + 0.1*s for the weights of layer norms, 0.4*s for everything else, biases included
  tokens[b][t]  = (7*b + 3*t*t + t) % 11
  targets[b][t] = (5*b + 2*t*t + 3*t + 1) % 11, but targets[1][4] = -1: ignored

The file is words separated by white space, for fscanf:

  variant NAME bias 0|1     a new model; what follows is about it
  tensor NAME n             then n numbers, six on a line, row-major, 11 significant digits
  end                       the file is whole

  tokens, targets           (B,T), the formulas above
  logits, loss              (B,T,V), and the mean over the targets that are not ignored
  grad.PARAMETER            the gradient of that loss, before any clipping
  losses, norms             the loss, and the norm of the whole gradient, before each of the ten steps
  after.PARAMETER           after the ten steps; only for softmax and cosine, to keep the file small
  sum.start .grad .after    for every variant: one number a parameter, sum_i x[i] sin(i+1), of the values at the start
                            (compare these first), of the gradients, and of the values after the ten steps
  short.logits .loss .sum.grad   the same start, T=5 of the block of 9: t = 0..4 of the tokens and targets
  eps.logits .loss .sum.grad     the same start, T=9, eps = 0.1 in place of 1e-6; only for elu1 and cosine

For none (no ln_1 and no attn in any block) there are only the sums, no grad.PARAMETER.

A step: clip as torch.nn.utils.clip_grad_norm_ does, g *= min(1, 1/(norm + 1e-6)), then with t = 1..10, lr = .01
  w *= 1 - lr*.1 if w has two or more dimensions;  m = .9m + .1g;  v = .99v + .01g^2
  w -= lr * (m/(1-.9^t)) / (sqrt(v/(1-.99^t)) + 1e-8)

Compare |c - python| with 1e-9 times the largest value of the tensor (for gradients: of all gradients of the variant).
Biases are on for elu1 and cosine only: with softmax and double-softmax the gradient of the keys' bias is exactly 0, and
AdamW would make steps out of what rounding leaves of it.
Before writing, each gradient is compared with a central difference along a direction.
"""
import math
import sys

import torch
from model import GPT, adamw

B, T, V = 2, 9, 11
VARIANTS = [("softmax", False), ("elu1", True), ("double-softmax", False), ("cosine", True), ("none", False)]
AFTER = ("softmax", "cosine")
tokens = torch.tensor([[(7 * b + 3 * t * t + t) % V for t in range(T)] for b in range(B)])
targets = torch.tensor([[(5 * b + 2 * t * t + 3 * t + 1) % V for t in range(T)] for b in range(B)])
targets[1, 4] = -1


def tiny(attn, bias, eps=1e-6):
  model = GPT(V, n_layer=2, n_head=2, n_embd=12, block=9, attn=attn, bias=bias, eps=eps)
  for p, (name, w) in enumerate(model.named_parameters()):
    norm = ".ln_" in name and name.endswith("weight")
    s = [math.sin(1.7 * (i + 1) + 0.9 * (p + 1)) for i in range(w.numel())]
    w.data = torch.tensor([1 + 0.1 * x if norm else 0.4 * x for x in s]).view_as(w)
  return model


def backward(model, t=T):
  """Logits and loss of the first t tokens; the gradients are left in the parameters."""
  model.zero_grad()
  logits = model(tokens[:, :t])
  loss = model.loss(tokens[:, :t], targets[:, :t])
  loss.backward()
  return logits, loss


def sums(tensors):
  return [math.fsum(x * math.sin(i + 1) for i, x in enumerate(w.flatten().tolist())) for w in tensors]


def check(model):
  """Largest |dL(direction) - central difference| over the parameters; the gradients must be in place."""
  worst = 0
  for w in model.parameters():
    d = torch.cos(torch.arange(w.numel()) * 1.3).view_as(w)
    keep, h, side = w.data, 1e-5, []
    for sign in (1, -1):
      w.data = keep + sign * h * d
      with torch.no_grad():
        side.append(model.loss(tokens, targets).item())
    w.data = keep
    worst = max(worst, abs((w.grad * d).sum().item() - (side[0] - side[1]) / (2 * h)))
  return worst


def write(out, name, values):
  values = values.flatten().tolist() if torch.is_tensor(values) else values
  out.append(f"tensor {name} {len(values)}")
  out.extend(" ".join("%.11g" % x for x in values[i:i + 6]) for i in range(0, len(values), 6))


def write_variant(out, attn, bias):
  out.append(f"variant {attn} bias {int(bias)}")
  model = tiny(attn, bias)
  names = [name for name, _ in model.named_parameters()]
  weights = list(model.parameters())
  write(out, "tokens", tokens)
  write(out, "targets", targets)
  write(out, "sum.start", sums(weights))

  logits, loss = backward(model)
  write(out, "logits", logits)
  write(out, "loss", [loss.item()])
  if attn != "none":
    for name, w in zip(names, weights):
      write(out, "grad." + name, w.grad)
  write(out, "sum.grad", sums(w.grad for w in weights))
  error = check(model)
  print(f"{attn}: loss {loss.item():.6f}, gradients against differences {error:.1e}")
  if error > 1e-8:
    sys.exit(f"{attn}: a gradient is wrong, nothing written")

  optim, losses, norms = adamw(model, lr=1e-2), [], []
  for _ in range(10):
    losses.append(backward(model)[1].item())
    norms.append(torch.nn.utils.clip_grad_norm_(weights, 1.0).item())
    optim.step()
  write(out, "losses", losses)
  write(out, "norms", norms)
  if attn in AFTER:
    for name, w in zip(names, weights):
      write(out, "after." + name, w)
  write(out, "sum.after", sums(weights))

  others = [("short", tiny(attn, bias), 5)]
  if attn in ("elu1", "cosine"):
    others.append(("eps", tiny(attn, bias, eps=0.1), T))
  for prefix, other, t in others:
    logits, loss = backward(other, t)
    write(out, prefix + ".logits", logits)
    write(out, prefix + ".loss", [loss.item()])
    write(out, prefix + ".sum.grad", sums(w.grad for w in other.parameters()))


def main():
  torch.set_default_dtype(torch.float64)
  out = []
  for attn, bias in VARIANTS:
    write_variant(out, attn, bias)
  out.append("end")
  with open(sys.argv[1] if len(sys.argv) > 1 else "tiny.txt", "w", encoding="ascii") as f:
    f.write("\n".join(out) + "\n")


if __name__ == "__main__":
  main()
