#!/usr/bin/env python3
"""Writes attention.txt: outputs and gradients of every attention variant in double precision, from PyTorch.

    python3 make_attention_golden.py [attention.txt]

Each variant stands below as its paper writes it: all weights of a text, (T,T), and no trick. B=2, T=9, H=2, D=4, E=3.
Everything C must know is a formula. Element i, in row-major order, of tensor p is

  a sin(0.9 (p+1) + 1.7 n + 0.013 n^2), n = i + 1       (n^2: or all rows of q would lie in one plane)

  p  tensor                  a      p  tensor                                                    a
  0  q (B,T,H,D)             1.5    4  the second weight: of k, where q has one of its own       1.2
  1  k (B,T,H,D)             1.5    5  decay logits (H); 1 is added                              1
  2  v (B,T,H,E)             1      6  cotangent of o (B,T,H,E)                                  1
  3  weight, see the variant 1.2

The file is words separated by white space, for fscanf:

  variant SPEC bidirectional 0|1    SPEC as --attn reads it, with eps 1e-6 where it does not say; made for texts of up
                                    to 12 tokens, where SPEC does not say
  tensor NAME n                     then n numbers, six on a line, row-major, 11 significant digits
  end                               the file is whole

  o                         (B,T,H,E)
  dq dk dv                  gradients of <o, cotangent>
  dweight.0 dweight.1       of weights that are trained
  ddecay                    of the logits of the decay, (H)

Compare |c - python| with 1e-9 times the largest value of the tensor.
Before writing, each gradient is compared with a central difference along a direction.
"""
import itertools
import math
import sys

import torch

B, T, H, D, E = 2, 9, 2, 4, 3
EPS = 1e-6
AMPLITUDE = (1.5, 1.5, 1, 1.2, 1.2, 1, 1)


def numbers(p, *shape):
  n = torch.arange(1, math.prod(shape) + 1)
  return (AMPLITUDE[p] * torch.sin(0.9 * (p + 1) + 1.7 * n + 0.013 * n * n)).view(shape)


# Below, q, k and v are (B,H,T,D) or (B,H,T,E); a variant gives the weights (B,H,T,T) of a text, whose rows are the
# queries' t, columns the keys' j. seen (T,T): whether t may look at j; the lower triangle, or everything.

age = torch.arange(T).view(T, 1) - torch.arange(T)  # t - j
position = torch.arange(T)


def dots(a, b):
  return a @ b.transpose(-1, -2)


def head_linear(x, W):
  """W x for each head; x (B,H,T,D), W (H,m,D)"""
  return torch.einsum("hmd,bhtd->bhtm", W, x)


def softmax_over(seen, scores):
  return scores.masked_fill(~seen, -math.inf).softmax(-1)


def normalised(seen, sim, eps, floor=None):
  """sim_tj / (sum_j sim_tj + eps), the denominator not below floor"""
  sim = sim.masked_fill(~seen, 0)
  total = sim.sum(-1, keepdim=True) + eps
  return sim / (total if floor is None else total.clamp(min=floor))


def kernel(phi, eps=EPS, gamma=None):
  """sim_tj = phi(q_t).phi(k_j) gamma^(t-j); phi(x, W) may use a weight: the first for q, the last for k."""
  def weights(seen, q, k, w, logits):
    sim = dots(phi(q, w[0] if w else None), phi(k, w[-1] if w else None))
    if gamma:
      sim = sim * gamma(logits).view(H, 1, 1) ** age
    return normalised(seen, sim, eps)
  return weights


def mixed(seen, q, k, w, logits):
  """A map for q and another for k."""
  return normalised(seen, dots(elu1(q, None), sigmoid(k, None)), EPS)


def log_kernel(log_phi_q, log_phi_k):
  """sim_tj = sum_f exp(log phi(q_t)_f + log phi(k_j)_f), which needs no eps: never 0, and whole rows may be scaled."""
  def weights(seen, q, k, w, logits):
    W = w[0] if w else None
    scores = torch.logsumexp(log_phi_q(q, W).unsqueeze(-2) + log_phi_k(k, W).unsqueeze(-3), -1)
    return softmax_over(seen, scores)
  return weights


# --- feature maps: (..,D) to (..,m) ---

def elu1(x, W):
  return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def relu(x, W):
  return x.clamp(min=0)


def relu2(x, W):
  return relu(x, W).square()


def softplus(x, W):
  return torch.log(1 + x.exp())


def sigmoid(x, W):
  return 1 / (1 + (-x).exp())


def identity(x, W):
  return x


def log_softplus(x, W):
  return softplus(x, W).log()


def taylor2(x, W):
  """The exponential series of s = q.k / sqrt D to its second term, phi(q).phi(k) = 1 + s + s^2 / 2; W (H,2,D), for the
  option d=2, is a projection before it, and then D = 2."""
  if W is not None:
    x = head_linear(x, W)
  x = x / x.shape[-1] ** 0.25
  square = (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2) / math.sqrt(2)  # all x_i x_j, so each pair i < j twice
  return torch.cat((torch.ones_like(x[..., :1]), x, square), -1)


def log_favor(x, W):
  """W (H,m,D): log phi(x)_f = W_f.x D^(-1/4) - |x|^2 D^(-1/2) / 2; a common factor of all features cancels."""
  return head_linear(x, W) * D ** -0.25 - x.square().sum(-1, keepdim=True) * D ** -0.5 / 2


def dpfp(x, W, nu=2):
  """r = [relu(x), relu(-x)], features r_i r_(i-n) for n = 1..nu, where i-n goes around"""
  r = torch.cat((x.clamp(min=0), (-x).clamp(min=0)), -1)
  return torch.cat([r * r.roll(n, -1) for n in range(1, nu + 1)], -1)


def cosformer(x, W, length=16):
  """[relu(x) sin(pi i / 2 length), relu(x) cos(pi i / 2 length)] for token i"""
  angle = (math.pi * position / (2 * length)).unsqueeze(-1)
  return torch.cat((relu(x, W) * torch.sin(angle), relu(x, W) * torch.cos(angle)), -1)


def hedgehog(x, W):
  """W (H,D,D): softmax([W x, -W x])"""
  y = head_linear(x, W)
  return torch.cat((y, -y), -1).softmax(-1)


def t2r(x, W):
  """W (H,m,D+1), its last column b: relu(W x + b)"""
  return (head_linear(x, W[..., :D]) + W[..., D].unsqueeze(-2)).clamp(min=0)


# --- variants whose weights are no plain kernel ---

def softmax(seen, q, k, w, logits):
  return softmax_over(seen, dots(q, k) / math.sqrt(D))


def sparse(sees):
  """softmax over the keys that sees[t,j] leaves"""
  return lambda seen, q, k, w, logits: softmax(seen & sees, q, k, w, logits)


def strided(s):
  return (age.abs() < s) | (age % s == 0)


def fixed(s, c):
  block = position.div(s, rounding_mode="floor")
  return (block.view(T, 1) == block) | (position % s >= s - c)


def cosine(eps):
  """sim = 1 + q^.k^, x^ = x / sqrt(|x|^2 + eps^2)"""
  unit = lambda x: x / (x.square().sum(-1, keepdim=True) + eps * eps).sqrt()
  return lambda seen, q, k, w, logits: normalised(seen, 1 + dots(unit(q), unit(k)), eps)


def rff(seen, q, k, w, logits):
  """Random Fourier features of unit vectors, W (H,m/2,D): phi(x) = (m/2)^(-1/2) [sin(W x^), cos(W x^)], x^ = x / |x|.
  phi(q).phi(k) estimates exp(-|q^ - k^|^2 / 2), which is not below exp(-2), and yet may be 0 or less: the denominator
  is exp(-2) at least."""
  def phi(x):
    y = head_linear(x / x.norm(dim=-1, keepdim=True), w[0])
    return torch.cat((y.sin(), y.cos()), -1) / math.sqrt(y.shape[-1])
  return normalised(seen, dots(phi(q), phi(k)), EPS, floor=math.exp(-2))


def double_softmax(seen, q, k, w, logits):
  """w_tj = sum_f softmax_f(q_t) softmax_j(k_jf), the second over what t sees"""
  over_keys = k.transpose(-1, -2).unsqueeze(-3).masked_fill(~seen.unsqueeze(-2), -math.inf).softmax(-1)  # t, f, j
  return torch.einsum("bhtf,bhtfj->bhtj", q.softmax(-1), over_keys)


def lsh(c):
  """W (H,rounds,D), a hyperplane for each round: two buckets, by the sign of W.x. A bucket has its keys in order of
  position, in chunks of c. Query t, whose place in the bucket it falls into is the number of keys that this has before
  t, sees of them those in the chunk of that place and in its neighbours, but not itself. Softmax over what it sees in
  any round, each key once, keys of unit length; over itself only if there is nothing else."""
  def weights(seen, q, k, w, logits):
    unit = k / k.norm(dim=-1, keepdim=True)
    sees = torch.zeros(B, H, T, T, dtype=torch.bool)
    bucket_q, bucket_k = (torch.einsum("hrd,bhtd->rbht", w[0], x) > 0 for x in (q, k))
    for r, b, h, t in itertools.product(range(w[0].shape[1]), range(B), range(H), range(T)):
      keys = [j for j in range(T) if bucket_k[r, b, h, j] == bucket_q[r, b, h, t]]
      own = sum(j < t for j in keys) // c
      for n, j in enumerate(keys):
        sees[b, h, t, j] |= j != t and abs(n // c - own) <= 1
    sees &= seen
    alone = ~sees.any(-1, keepdim=True) & torch.eye(T, dtype=torch.bool)
    return softmax_over(sees | alone, dots(q, unit) / math.sqrt(D))
  return weights


def linformer(seen, q, k, w, logits):
  """Keys and values are projected along the text, K~ = W K, V~ = U V, by the first T columns of W, U (r,length):
  o = softmax(q K~' / sqrt D) V~, so that the weights of v are softmax(..) U."""
  W, U = (x[:, :T] for x in w)
  return (dots(q, W @ k) / math.sqrt(D)).softmax(-1) @ U


LONGEST = 12  # of which a text uses T
CAUSAL, FULL = [0], [1]
BOTH = CAUSAL + FULL


def entry(spec, weights, shapes=(), trained=True, directions=BOTH, decay=False):
  return spec, weights, shapes, trained, directions, decay


def learned(logits):
  return 1 / (1 + (-logits).exp())


ENTRIES = [
  entry("softmax", softmax),
  entry("elu1", kernel(elu1)),
  entry("elu1:eps=0.1", kernel(elu1, eps=0.1)),
  entry("elu1:decay=learned", kernel(elu1, gamma=learned), directions=CAUSAL, decay=True),
  entry("relu", kernel(relu)),
  entry("relu2", kernel(relu2)),
  entry("exp", log_kernel(identity, identity)),
  entry("softplus", kernel(softplus)),
  entry("sigmoid", kernel(sigmoid)),
  entry("taylor2:d=0", kernel(taylor2)),
  entry("taylor2:d=2", kernel(taylor2), [(H, 2, D)] * 2),
  entry("favor:m=6", log_kernel(log_favor, log_favor), [(H, 6, D)], trained=False),
  entry("rff:m=6", rff, [(H, 3, D)], trained=False),
  entry("dpfp:nu=2", kernel(dpfp)),
  entry("cosformer:length=16", kernel(cosformer)),
  entry("hedgehog", kernel(hedgehog), [(H, D, D)] * 2),
  entry("t2r:m=5", kernel(t2r), [(H, 5, D + 1)] * 2),
  entry("cosine", cosine(EPS)),
  entry("cosine:eps=0.1", cosine(0.1)),
  entry("double-softmax", double_softmax),
  entry("kernel:q=elu1,k=sigmoid", mixed),
  entry("kernel:q=softplus,k=exp", log_kernel(log_softplus, identity)),
  entry("window:w=3", sparse(age.abs() < 3)),
  entry("sparse-strided:s=3", sparse(strided(3))),
  entry("sparse-fixed:s=3,c=1", sparse(fixed(3, 1))),
  entry("lsh:rounds=2,buckets=2,c=2", lsh(2), [(H, 2, D)], trained=False),
  entry("linformer:r=3", linformer, [(3, LONGEST)] * 2, directions=FULL),
]


def attention(weights, bidirectional, x):
  """o (B,T,H,E); x: q, k, v, the weights, the logits or None"""
  q, k, v = (y.transpose(1, 2) for y in x[:3])
  seen = torch.ones(T, T, dtype=torch.bool)
  return (weights(seen if bidirectional else seen.tril(), q, k, x[3:-1], x[-1]) @ v).transpose(1, 2)


def worst_difference(loss, x):
  """Largest |dL(direction) - central difference| over |dL| |direction| of the tensors of x; their gradients must be in
  place."""
  worst = 0
  for y in x:
    d = torch.cos(torch.arange(y.numel()) * 1.3).view_as(y)
    keep, h, side = y.data, 1e-5, []
    for sign in (1, -1):
      y.data = keep + sign * h * d
      with torch.no_grad():
        side.append(loss().item())
    y.data = keep
    gap = abs((y.grad * d).sum().item() - (side[0] - side[1]) / (2 * h))
    worst = max(worst, gap / (y.grad.norm() * d.norm()).item())
  return worst


def write(out, name, values):
  values = values.flatten().tolist()
  out.append(f"tensor {name} {len(values)}")
  out.extend(" ".join("%.11g" % x for x in values[i:i + 6]) for i in range(0, len(values), 6))


def write_entry(out, spec, weights, shapes, trained, bidirectional, decay):
  x = {"q": numbers(0, B, T, H, D), "k": numbers(1, B, T, H, D), "v": numbers(2, B, T, H, E)}
  x.update({f"weight.{i}": numbers(3 + i, *shape) for i, shape in enumerate(shapes)})
  logits = 1 + numbers(5, H) if decay else None
  inputs = [*x.values(), logits]
  if decay:
    x["decay"] = logits
  moving = {name: y.requires_grad_() for name, y in x.items() if trained or not name.startswith("weight")}
  loss = lambda: (attention(weights, bidirectional, inputs) * numbers(6, B, T, H, E)).sum()
  loss().backward()
  error = worst_difference(loss, moving.values())
  print(f"{spec}{' bidirectional' if bidirectional else ''}: gradients against differences {error:.1e}")
  if not error < 1e-8:
    sys.exit(f"{spec}: a gradient is wrong, nothing written")
  out.append(f"variant {spec} bidirectional {bidirectional}")
  write(out, "o", attention(weights, bidirectional, inputs))
  for name, y in moving.items():
    write(out, "d" + name, y.grad)


def main():
  torch.set_default_dtype(torch.float64)
  out = []
  for spec, weights, shapes, trained, directions, decay in ENTRIES:
    for bidirectional in directions:
      write_entry(out, spec, weights, shapes, trained, bidirectional, decay)
  out.append("end")
  with open(sys.argv[1] if len(sys.argv) > 1 else "attention.txt", "w", encoding="ascii") as f:
    f.write("\n".join(out) + "\n")


if __name__ == "__main__":
  main()
