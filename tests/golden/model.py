"""A GPT in PyTorch, written from the formulas: what the C model is compared with.

A module, not a program: make_golden.py, train_reference.py, compare_checkpoint.py and export_state_dict.py import it.

  x = wte[token] + wpe[position];   per block: x = x + attn(ln_1(x)), x = x + mlp(ln_2(x));   logits = ln_f(x) wte'

Parameters have GPT-2's names; weights of linear layers are (out, in) and biases exist only with bias=True.
With attn="none" a block has neither ln_1 nor attn. Letters: B batch, T time, C width, H heads, D = C/H, V vocabulary.
"""
import math
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F


# Causal attention. q, k, v and the result: (B,H,T,D); past: (T,T), true where key s <= query t.

def softmax(q, k, v, past, eps):
  """o_t = sum_s softmax_s(q_t.k_s / sqrt D) v_s"""
  scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
  return scores.masked_fill(~past, -math.inf).softmax(-1) @ v


def normalised(sim, v, past, eps):
  """o_t = sum_s sim_ts v_s / (sum_s sim_ts + eps)"""
  sim = sim.masked_fill(~past, 0)
  return (sim @ v) / (sim.sum(-1, keepdim=True) + eps)


def elu1(q, k, v, past, eps):
  """sim = phi(q).phi(k), phi(x) = x > 0 ? x + 1 : exp(x)"""
  phi = lambda x: torch.where(x > 0, x + 1, x.clamp(max=0).exp())
  return normalised(phi(q) @ phi(k).transpose(-1, -2), v, past, eps)


def cosine(q, k, v, past, eps):
  """sim = 1 + q^.k^, x^ = x / sqrt(|x|^2 + eps^2)"""
  unit = lambda x: x / (x.square().sum(-1, keepdim=True) + eps * eps).sqrt()
  return normalised(1 + unit(q) @ unit(k).transpose(-1, -2), v, past, eps)


def double_softmax(q, k, v, past, eps):
  """o_t = sum_f softmax_f(q_t) sum_{s<=t} exp(k_sf - z_tf) v_s, z_tf = logsumexp_{s<=t} k_sf

  Direct form: (T,T,D) weights, each a softmax over the past. In float, the same through one pivot c per feature:
  exp(k_s - z_t) = exp(k_s - c) / sum_{s<=t} exp(k_s - c), as long as no key is so far below c that this loses digits.
  """
  q = q.softmax(-1)
  c = k.detach().amax(-2, keepdim=True)
  if k.dtype == torch.float32 and (c - k.detach()).max() < 40:
    e = (k - c).exp()
    weights = (q / e.cumsum(-2)) @ e.transpose(-1, -2)
    return weights.masked_fill(~past, 0) @ v
  w = k.unsqueeze(-3).masked_fill(~past.unsqueeze(-1), -math.inf).softmax(-2)  # w[..., t, s, f]
  return torch.einsum("bhtf,bhtsf->bhts", q, w) @ v


ATTN = {"softmax": softmax, "elu1": elu1, "cosine": cosine, "double-softmax": double_softmax, "none": None}


class Norm(nn.Module):
  def __init__(self, width, bias):
    super().__init__()
    self.weight = nn.Parameter(torch.ones(width))
    self.register_parameter("bias", nn.Parameter(torch.zeros(width)) if bias else None)

  def forward(self, x):
    return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
  def __init__(self, g):
    super().__init__()
    self.g = g
    self.c_attn = nn.Linear(g.n_embd, 3 * g.n_embd, bias=g.bias)
    self.c_proj = nn.Linear(g.n_embd, g.n_embd, bias=g.bias)

  def forward(self, x):
    B, T, C = x.shape
    H = self.g.n_head
    q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in self.c_attn(x).split(C, dim=-1))
    past = torch.ones(T, T, dtype=torch.bool).tril()
    o = ATTN[self.g.attn](q, k, v, past, self.g.eps)
    return self.c_proj(o.transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
  def __init__(self, g):
    super().__init__()
    self.c_fc = nn.Linear(g.n_embd, 4 * g.n_embd, bias=g.bias)
    self.c_proj = nn.Linear(4 * g.n_embd, g.n_embd, bias=g.bias)

  def forward(self, x):
    return self.c_proj(F.gelu(self.c_fc(x)))  # the exact one, with erf


class Block(nn.Module):
  def __init__(self, g):
    super().__init__()
    if g.attn != "none":
      self.ln_1 = Norm(g.n_embd, g.bias)
      self.attn = Attention(g)
    self.ln_2 = Norm(g.n_embd, g.bias)
    self.mlp = MLP(g)

  def forward(self, x):
    if hasattr(self, "attn"):
      x = x + self.attn(self.ln_1(x))
    return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
  """GPT(vocab)(ids): (B,T) -> logits (B,T,V). The defaults are the reference character run's."""

  def __init__(self, vocab, n_layer=4, n_head=4, n_embd=128, block=64, attn="softmax", pos="learned", bias=False, eps=1e-6):
    super().__init__()
    if attn not in ATTN or pos not in ("learned", "none") or n_embd % n_head:
      raise ValueError(f"no such model here: attn {attn}, pos {pos}, width {n_embd}, {n_head} heads")
    self.shape = g = SimpleNamespace(n_head=n_head, n_embd=n_embd, block=block, attn=attn, bias=bias, eps=eps)
    parts = {"wte": nn.Embedding(vocab, n_embd)}
    if pos == "learned":
      parts["wpe"] = nn.Embedding(block, n_embd)
    parts["h"] = nn.ModuleList(Block(g) for _ in range(n_layer))
    parts["ln_f"] = Norm(n_embd, bias)
    self.transformer = nn.ModuleDict(parts)
    self.lm_head = nn.Linear(n_embd, vocab, bias=False)
    self.lm_head.weight = self.transformer.wte.weight  # tied: one parameter, listed once by named_parameters
    for name, w in self.named_parameters():
      if w.dim() >= 2:
        nn.init.normal_(w, std=0.02 / math.sqrt(2 * n_layer) if name.endswith("c_proj.weight") else 0.02)
      elif name.endswith("bias"):
        nn.init.zeros_(w)

  def forward(self, ids):
    x = self.transformer.wte(ids)
    if "wpe" in self.transformer:
      x = x + self.transformer.wpe.weight[:ids.shape[1]]
    for block in self.transformer.h:
      x = block(x)
    return self.lm_head(self.transformer.ln_f(x))

  def loss(self, ids, targets):
    """Mean cross-entropy in nats over the targets that are not -1."""
    return F.cross_entropy(self(ids).flatten(0, 1), targets.flatten(), ignore_index=-1)


def adamw(model, lr, weight_decay=0.1):
  """AdamW, betas .9 and .99, eps 1e-8; decay on parameters of two or more dimensions, embeddings included."""
  wide = [w for w in model.parameters() if w.dim() >= 2]
  thin = [w for w in model.parameters() if w.dim() < 2]
  groups = [{"params": wide, "weight_decay": weight_decay}, {"params": thin, "weight_decay": 0.0}]
  return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.99), eps=1e-8)


def read_text(path):
  with open(path, encoding="utf-8", newline="") as f:
    return f.read()


def char_ids(text):
  """The distinct characters in order of code point, and the text as their numbers."""
  chars = sorted(set(text))
  number = {c: i for i, c in enumerate(chars)}
  return chars, torch.tensor([number[c] for c in text])


def split(ids, val_frac=0.1):
  cut = int((1 - val_frac) * len(ids))
  return ids[:cut], ids[cut:]


@torch.no_grad()
def text_loss(model, ids):
  """Mean loss over the whole of ids, in windows of the block size that do not overlap; a shorter tail is left out."""
  T = model.shape.block
  n = (len(ids) - 1) // T
  if n < 1:
    raise ValueError(f"{len(ids)} tokens do not fill one window of {T} and its last target")
  x, y = ids[:n * T].view(n, T), ids[1:n * T + 1].view(n, T)
  return sum(model.loss(x[i:i + 64], y[i:i + 64]).item() * len(x[i:i + 64]) for i in range(0, n, 64)) / n
