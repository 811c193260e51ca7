#!/usr/bin/env bash
# Does the suite notice?  Plants faults of one line each, one by one, in a copy of the project, and runs
# the tests until one fails.  A fault that none notices is printed as MISSED, and the exit code is 1.
#
#   tests/faults.sh [NUMBER ...]        all, or those: about three hours on two cores
#   tests/faults.sh --check             only whether each line still stands once in its file, which the suite
#                                       asks every time: builds nothing
#
# CMAKE_BUILD_PARALLEL_LEVEL and OMP_NUM_THREADS say how many cores it may use.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

# what | file | the line as it is (a part that stands there once) | what it becomes
faults=(
  "eps dropped from the normaliser|autograd/ops/causal_linear_chunk.h|w->P, C, s.eps,|w->P, C, 0,"
  "sign of the normaliser's gradient|tensor/vec_kernels.c|floor ? 0 : -vec_dot(E, g, o)|floor ? 0 : vec_dot(E, g, o)"
  "dP' A dropped from dB|autograd/ops/causal_linear_chunk.h|C, s.m, C, w->dP, C, A|C, s.m, 1, w->dP, C, A"
  "mask drops the diagonal|autograd/kernel.h|memset(P + i * C + i + 1, 0, (size_t)(C - 1 - i)|memset(P + i * C + i, 0, (size_t)(C - i)"
  "mask lets one future token in|autograd/kernel.h|memset(P + i * C + i + 1, 0, (size_t)(C - 1 - i)|for (int64_t j = i + 2; j < C; j = C) memset(P + i * C + j, 0, (size_t)(C - j)"
  "S and R of other chunks lost|autograd/ops/kernel_linear_chunk.h|la_gemm_tn(LA_ADD, s.m, s.E, C, X|la_gemm_tn(LA_SET, s.m, s.E, C, X"
  "dv = instead of +=|autograd/ops/causal_linear_chunk.h|first_dv ? LA_SET : LA_ADD|LA_SET"
  "segments begin without the state|autograd/ops/causal_linear.c|sums, 1, len, a.state ?|sums, 1, len, 0 ?"
  "segments: the sum includes its own|autograd/ops/causal_linear.c|x[j] = total[j];|x[j] += total[j];"
  "segments: gradients summed from the front|autograd/ops/causal_linear.c|scan(n, s, &a, sums, -1, len|scan(n, s, &a, sums, 1, len"
  "heads of a block share one state|autograd/ops/causal_linear.c|la_real *S = w.S + h * s.L;|la_real *S = w.S;"
  "decay: a segment fades by its room, not its tokens|autograd/ops/causal_linear.c|to = la_min(a->x.tokens, chunks.to * s.C);|to = chunks.to * s.C;"
  "decay: gradient without the state that passes by|autograd/ops/causal_linear_chunk.h|*dl += (double)C * (double)power|*dl += 0 * (double)power"
  "decay: gradient of the first batch row only|autograd/ops/causal_linear.c|for (int64_t b = 0; b < s.B; b++)|for (int64_t b = 0; b < 1; b++)"
  "padding enters the state|autograd/ops/kernel_linear_chunk.h|la_min(s.C, p->a.x.tokens - chunk * s.C);|la_min(s.C, s.T - chunk * s.C);"
  "full_linear: only the first segment counts|autograd/ops/full_linear.c|for (int64_t c = 1; c < s.segments; c++)|for (int64_t c = 1; c < 1; c++)"
  "a clamped normaliser has a gradient|tensor/vec_kernels.c|w[i] = D[i] == floor ? 0 :|w[i] = 0 ? 0 :"
  "elu1: slope 1 everywhere|tensor/map_kernels.c|x[j] > 0 ? 1 : y[j])|x[j] > 0 ? 1 : 1)"
  "elu1: linear from 1 only|tensor/map_kernels.c|up = x[j] > 0|up = x[j] > 1"
  "cosine: projection dropped from dx|autograd/attention/cosine.c|(dy[1 + j] - y[1 + j] * along)|(dy[1 + j])"
  "cosine: eps not squared|autograd/attention/cosine.c|R(r->cfg->eps) * R(r->cfg->eps)|R(r->cfg->eps)"
  "softmax: scale 1/D|autograd/attention/softmax_tile.h|s.scale = 1 / sqrt(R(s.D))|s.scale = 1 / R(s.D)"
  "softmax: sees the next token|tensor/tile_kernels.c|? i + 1 : n, n, S, m + i|? i + 2 : n, n, S, m + i"
  "softmax: running sum not rescaled|tensor/tile_kernels.c|*l * *shrink + sum|*l + sum"
  "softmax: running output not rescaled|autograd/attention/softmax_tile.h|if (w->shrink[r] != 1)|if (w->shrink[r] > 1)"
  "softmax: a strip's part of dq lost|autograd/attention/softmax.c|la_min(s.strips, seen_tiles|la_min(s.strips - 1, seen_tiles"
  "softmax: d forgotten in dS|tensor/tile_kernels.c|(t - d)|t"
  "softmax: the cache's length ignored|autograd/attention/softmax.c|a.past = la_attn_past(n, b), a.old|a.past = 0, a.old"
  "softmax: padding is read as tokens|autograd/attention/softmax.c|a.N = la_attn_tokens(n, b), a.tiles|a.N = s.T, a.tiles"
  "softmax: dk of padding is not written|autograd/attention/softmax.c|if (a->dk && first & LA_SETS_IN(1)) clear_rows|if (0) clear_rows"
  "taylor2 pair by pair: eps dropped|autograd/attention/softmax_tile.h|return *norm = w->l[r] + s.eps;|return *norm = w->l[r];"
  "taylor2 pair by pair: the rest of a vector counts|tensor/tile_kernels.c|S[j + k] = counts ? R(0.5) * (up * up + 1) : 0;|S[j + k] = R(0.5) * (up * up + 1);"
  "taylor2 pair by pair: in spite of decay|autograd/attention/attention.c|c->decay) return la_attn_op(c);|0) return la_attn_op(c);"
  "taylor2 pair by pair: slope 1|tensor/tile_kernels.c|dP[j + k] = up * scale * t;|dP[j + k] = scale * t;"
  "taylor2 pair by pair: with a state|autograd/attention/attention.c|if (!in->state && x[2]|if (x[2]"
  "softmax: both ways, a triangle all the same|autograd/attention/softmax_tile.h|return !s.both && tile|return tile"
  "softmax: gradients of a cache nobody asked|autograd/attention/softmax.c|a.N ? a.old + a.tiles : 0;|a.old + a.tiles;"
  "window: one key more|autograd/attention/sparse.c|la_max(k.from, j - w + 1) - k.from|la_max(k.from, j - w) - k.from"
  "window: both ways, the keys ahead forgotten|autograd/attention/sparse.c|x->cfg->bidirectional ? w : 1;|x->cfg->bidirectional ? 1 : 1;"
  "sparse: lse without the maximum|autograd/ops/sparse_softmax.c|w->m[t] + log(w->l[t])|log(w->l[t])"
  "linformer: dW of the first batch row only|autograd/attention/linformer.c|b < s.B; b++)|b < 1; b++)"
  "linformer: an empty segment keeps old sums|autograd/attention/linformer.c|memset(X, 0, (size_t)s.X * sizeof *X);|(void)0;"
  "double-softmax: rho dropped from dk|tensor/tile_kernels.c|yi[j] * (dyi[j] + r[j]);|yi[j] * dyi[j];"
  "double-softmax: Z not carried on|autograd/ops/causal_exp_linear.c|memcpy(w.Z0, w.Z + (C - 1) * s.W,|memcpy(w.Z0, w.Z,"
  "double-softmax: pivot from the segment's last key|autograd/ops/causal_exp_linear.c|first_pivot(n, s, &p->a.x, w, p->tokens.from);|first_pivot(n, s, &p->a.x, w, la_min(p->tokens.to, p->a.x.tokens) - 1);"
  "double-softmax: the pivot never moves|autograd/ops/exp_linear.h|u[f] - c[f] > SPREAD;|u[f] - c[f] > 9 * SPREAD;"
  "double-softmax: R not moved with the pivot|autograd/ops/causal_exp_linear_chunk.h|if (r) scale_rows(s, x.decay, R);|"
  "double-softmax: R of later segments kept whole|autograd/ops/causal_exp_linear_state.h|pass_on(s.E, keep[j], 1, R|pass_on(s.E, 1, 1, R"
  "double-softmax: only the first head is cut|autograd/ops/exp_linear.h|cut(s, w, h, C);|cut(s, w, 0, C);"
  "double-softmax: padding counts|autograd/ops/causal_exp_linear.c|la_min(s.C, p->a.x.tokens - chunk * s.C);|la_min(s.C, s.T - chunk * s.C);"
  "double-softmax: a segment of padding takes what is saved|autograd/ops/causal_exp_linear.c|const la_real *Z = p->chunks.from < p->chunks.to|const la_real *Z = 1"
  "exp: the normaliser without z|tensor/tile_kernels.c|total += y[j] * z[j];|total += y[j];"
  "exp: no gradient through z|tensor/tile_kernels.c|dz[j] = -y[j] * along;|dz[j] = 0 * along;"
  "exp: the pivot of a later run forgotten|autograd/ops/exp_linear.h|while (start[r + 1] <= R(i)) r++;|while (start[r + 1] < R(0)) r++;"
  "exp: features instead of logarithms|autograd/ops/exp_linear.h|dx[j] / Q[j];|dx[j];"
  "both ways: only the first segment's keys|autograd/ops/exp_linear_scan.h|add = exp(c[j] - top);|add = i ? 0 : exp(c[j] - top);"
  "both ways: rho of the first segment alone|autograd/ops/full_exp_linear.c|la_vec_table()->axpy(F, 1, sums + i|la_vec_table()->axpy(0, 1, sums + i"
  "both ways: pivots not merged|autograd/ops/full_exp_linear.c|if (r) scale_rows(s, w->decay|if (0) scale_rows(s, w->decay"
  "spec: options of other variants are read|autograd/attention/spec.c|if (!la_has_word(a->options, keys[i].name))|if (0)"
  "spec: a number above its most is taken|autograd/attention/spec.c|&& *x <= k->max)|&& *x <= 9 * k->max)"
  "favor: the square forgotten|autograd/attention/favor.c|out->square = 0.5 / root;|out->square = 0;"
  "layernorm: mean(e) dropped|tensor/vec_kernels.c|(gain[c] * dy[c] - mean_e -|(gain[c] * dy[c] -"
  "layernorm: eps forgotten|tensor/vec_kernels.c|(v / R(n) + eps))|(v / R(n)))"
  "gelu: x phi(x) forgotten|tensor/map_kernels.c|(Phi + x[i] * phi)|(Phi + 0 * phi)"
  "linear: dW = instead of +=|autograd/ops/linear.c|la_gemm_tn(LA_ADD, o.to|la_gemm_tn(LA_SET, o.to"
  "linear: the residual's gradient forgotten|autograd/ops/linear.c|if (!s.r || !s.r->g) return;|return;"
  "linear: the slope of gelu forgotten|autograd/ops/linear.c|if (s.gelu) la_vec_table()->mul(|if (0) la_vec_table()->mul("
  "linear_cross_entropy: maximum not carried|autograd/ops/linear_cross_entropy.c|l[i] *= exp(m[i] - top);|"
  "linear_cross_entropy: ignored rows get a gradient|autograd/ops/linear_cross_entropy.c|if (label < 0) {|if (label < -9) {"
  "product: a triangle cut one column early|tensor/gemm_kernels.c|to > last + 1 - s->p) to = last + 1|to > last - s->p) to = last"
  "product: pieces of k overwrite each other|tensor/gemm_kernels.c|(p ? LA_ADD : 0)|0"
  "linear: db = instead of +=|autograd/ops/linear.c|if (la_sets(run, 2)) memset(db|memset(db"
  "embedding: repeated ids overwrite|autograd/ops/embedding.c|row[j] += dy[j];|row[j] = dy[j];"
  "cross_entropy: ignored labels counted|autograd/ops/cross_entropy.c|count += label[i] >= 0;|count += 1;"
  "saved where no backward follows|autograd/lives.c|if (f->runs_backward) f->saved[0] = (la_span){i, f->backward};|f->saved[0] = (la_span){i, i + f->backward};"
  "rope: backward turns the same way|autograd/ops/rope.c|n->saved + run->block * s.D, -1,|n->saved + run->block * s.D, 1,"
  "dropout: the same mask each step|autograd/ops/dropout.c|run->step * quads + |"
  "heads mixed|autograd/kernel.h|* n->ld + h * n->shape.d[3];|* n->ld;"
  "gradients not cleared|autograd/replay.c|memset(n->g + from, 0,|memset(n->g + from, 0, 0 *"
  "written though columns are left over|autograd/lives.c|return covered == la_len(owner->shape) ? mask : 0;|return mask;"
  "written though columns overlap|autograd/lives.c|if (a.from < b.to && b.from < a.to) return 0;|"
  "layernorm: dx added to garbage|tensor/vec_kernels.c|dx[c] = set ? d : dx[c] + d;|dx[c] += d;"
  "values freed before backward reads them|autograd/lives.c|n->op->reads & LA_READS_IN(j))|n->op->reads & LA_READS_OUT(j))"
  "a value that leaves its part is given up|autograd/schedule.c|if (f->part != t->info[i].part) f->read_outside = 1;|"
  "saved is not computed again|autograd/schedule.c|f->runs_again = f->runs_backward && f->plan.n_saved;|f->runs_again = 0;"
  "no second life|autograd/place.c|f->saved[0], f->saved[1]);|f->saved[0], f->saved[0]);"
  "adamw: second correction by beta1|optim/adamw.c|pow(c->beta2, (double)t)|pow(c->beta1, (double)t)"
  "adamw: the gradient not scaled|optim/adamw.c|gi = by * g[i];|gi = g[i];"
  "concat: every input at column 0|autograd/ops/concat.c|const la_real *dy = n->g + t * n->ld + at;|const la_real *dy = n->g + t * n->ld;"
  "pack: the rest is not cleared|autograd/ops/pack.c|r = la_max(r, part.from); forth && r < part.to; r++|r = la_max(r, part.from); 0 && r < part.to; r++"
  "pack: tokens of earlier blocks not counted|autograd/ops/pack.c|int64_t r = la_count(part.from, valid);|int64_t r = 0 * la_count(part.from, valid);"
  "rope: masked tokens take a position|autograd/ops/rope.c|r += s.valid ? s.valid[i] : 1;|r += 1;"
  "rope: every row has the past of the first|autograd/ops/rope.c|table += b % s.tables * s.T * s.D;|table += 0 * s.T * s.D;"
  "rmsnorm: eps forgotten|autograd/ops/rmsnorm.c|/ R(s.E) + eps)|/ R(s.E) + 0 * eps)"
  "rmsnorm: the slope of r forgotten|autograd/ops/rmsnorm.c|vec->axpy(s.E, -along, x + at, dx + at);|vec->axpy(s.E, 0, x + at, dx + at);"
  "short_conv: the taps turned around|autograd/ops/short_conv.c|add_product(s.C, run->scratch + p * s.C, z, y);|add_product(s.C, run->scratch + (s.W - 1 - p) * s.C, z, y);"
  "short_conv: masked tokens seen looking back|autograd/ops/short_conv.c|if (valid(s, b, t)) place[i--] = t;|place[i--] = t;"
  "short_conv: dstate of the state out forgotten|autograd/ops/short_conv.c|if (dz && a->dstate_out && a->places < s.W - 1)|if (0)"
  "short_conv: a run goes on over a hole|autograd/ops/short_conv.c|place[p] = place[p + 1] + run - 1;|place[p] = place[p + 1];"
  "head_linear: the direction's slope forgotten|autograd/ops/head_linear.c|along -= r * r * r * vec->dot(s.D, x, e);|along -= 0 * vec->dot(s.D, x, e);"
  "head_linear: the square has no gradient|autograd/ops/head_linear.c|along = 2 * vec->dot(s.m, k.W, dy);|along = 0;"
  "head_linear: only the first piece counts|autograd/ops/head_linear.c|piece < (h + 1) * s.pieces; piece++)|piece < h * s.pieces + 1; piece++)"
  "head_linear: a row of zeros has a gradient|autograd/ops/head_linear.c|square > 0 ? 1 / sqrt(square + R(TINY)) : 0;|1 / sqrt(square + R(TINY));"
  "features: directions all on one side|autograd/init.c|double norm = sqrt(dot(D, qi, qi));|double norm = copysign(sqrt(dot(D, qi, qi)), again ? 1 : qi[0]);"
  "features: all of one length|autograd/init.c|R(sqrt(square) * q[i * D + d])|R(sqrt((double)D) * q[i * D + d])"
  "features: each draw is the first|autograd/init.c|directions = 2 * draw * (uint64_t)len|directions = 0 * draw * (uint64_t)len"
  "frozen parameters are stepped|optim/optim.c|if (la_param_frozen(p, i)) continue;|"
  "frozen parameters get a gradient|autograd/params.c|la_tape_training(t) && !e->frozen ?|la_tape_training(t) ?"
  "mul_add_rows: the stride of the other rows|tensor/vec_kernels.c|i++, a += lda, x += ldx)|i++, a += lda, x += lda)"
  "decay on vectors too|autograd/params.c|shape.n >= 2;|shape.n >= 1;"
  "warm-up starts at 0|optim/optim.c|(double)(step + 1) /|(double)step /"
  "k reads q's columns|layers/attention.c|la_heads(t, qkv, g->column[i],|la_heads(t, qkv, g->column[i / 2 * 2],"
  "masks: one in ten too few are hidden|data/masking.c|of_ten < 8|of_ten < 7"
  "masks: the row's number forgotten|data/masking.c|(first + (uint64_t)r) *|(first / 2 + (uint64_t)r) *"
  "mqar: the label one place late|data/tasks/mqar.c|labels[at] = tokens[2 * n + 1];|labels[at + 1] = tokens[2 * n + 1];"
  "mqar: slots weighted by i^a|data/tasks/mqar.c|t->power - 1);|t->power);"
  "mqar: slots drawn again are not left out of the sum|data/tasks/mqar.c|if (slot_labels[2 * i] == LA_NO_TARGET) left +=|left +="
  "mqar: keys and values not shuffled|data/tasks/mqar.c|for (int64_t i = n - 1; i > 0; i--)|for (int64_t i = 0; i > 0; i--)"
  "copy: the label is the token itself|data/tasks/copy.c|labels[n + i] =|labels[n + 1 + i] ="
  "induction: the answer may be the last token|data/tasks/induction.c|r, 0, last - 1);|r, 0, last);"
  "needle: the first window is never drawn|data/tasks/needle.c|START, r, 0, t->text.n - t->length + 1);|START, r, 0, t->text.n - t->length) + 1;"
  "tasks: test rows are those of seed 3|data/task.h|(UINT64_C(1) << 63)|UINT64_C(3)"
  "tasks: the row's number forgotten|data/task.c|first_row + (uint64_t)r,|first_row,"
  "tasks: evaluated on rows of training|train/trainer.c|la_task_fill(e->task, LA_TASK_TEST_SEED,|la_task_fill(e->task, 3,"
  "tasks: logits of the place before a label|train/trainer.c|a->at[n] = (int32_t)i;|a->at[n] = (int32_t)(i > 0 ? i - 1 : 0);"
  "[MASK] is predicted|layers/lm.c|return lm->cfg.mask_token ? la_first_rows|return 0 ? la_first_rows"
  "targets not shifted|data/loader.c|start + 1|start"
  "statistics: n instead of n - 1|train/statistics.c|s.sd = sqrt(squares / (double)(s.n - 1));|s.sd = sqrt(squares / (double)s.n);"
  "statistics: z instead of t|train/statistics.c|la_t_quantile(0.975, s.n - 1) * s.sd|1.959964 * s.sd"
  "statistics: one side's p|train/statistics.c|r.p = 2 * tail(|r.p = tail("
  "statistics: a lead lost at the end is a crossing|train/statistics.c|isnan(from)) return INFINITY;|isnan(from)) continue;"
  "ngram: N1+ dropped|data/ngram.c|(count + c->types * p) /|(count + p) /"
  "ngram: the end of the text is followed|data/ngram.c|/ ((double)c->follow + c->types);|/ ((double)(k ? c->count : c->follow) + c->types);"
  "ngram: contexts share counts|data/ngram.c|if (c->parent == parent && c->token == token) break;|if (c->token == token) break;"
  "ngram: nothing before the first target|data/ngram.c|i = first > before ? first - before : 0;|i = first;"
  "events: checksums not masked|train/events.c|+ 0xa282ead8U)|+ 0)"
  "append: a torn piece stays|train/append.c|(void)cut(a->fd, a->end);|(void)0;"
  "append: what could not be written is lost|train/append.c|    keep(a, piece, n);|    (void)keep;"
  "events: a later file before an earlier one|train/events.c|after > now ? after : now,|now,"
  "confined: files can be opened|train/confined.c|limit(RLIMIT_NOFILE, 0, 0);|"
  "messages: they go to the terminal as they are|tensor/status.c|la_make_printable(fresh);|(void)la_make_printable;"
  "decode: numbers of any type are taken as they are|train/decode.c|H5Tequal(type, la_h5_real()) <= 0|0"
  "csv: an empty cell is left out|train/report.c|if (c != la_columns) n = add(|if (at && c != la_columns) n = add("
  "report: names are taken as markup|train/page/page.c|la_xml_text(p->out, va_arg(args, const char *));|fputs(va_arg(args, const char *), p->out);"
  "report: all drawings share their ids|train/page/svg.c|if (named) fprintf(|if (link) fprintf("
  "report: any attribute of a picture|train/page/svg.c|if (!is_among(*name, r->depth == 1 ? of_root : attributes))|if (0)"
  "report: any element of a picture|train/page/svg.c|if (!is_among(name, elements)|if (0"
  "report: any link of a picture|train/page/svg.c|else if (link)|else if (0)"
  "report: any function in a picture's values|train/page/svg.c|!is_among((span){s.at + from, i - from}, functions)|0"
  "report: an option that is no string|train/page/page.c|if (json_is_string(value))|if (1)"
  "report: a slope from two lengths|train/page/speed.c|la_json_count(e, \"n\") < 3|0"
  "report: intervals of accuracy beyond 1|train/page/chart.c|fmin(at + half, fmax(at, 1))|(at + half)"
  "report: cells of a reference that are not those of the head|train/page/summary.c|put_empty(p, 7 +|put_empty(p, 6 +"
  "report: a drawing's styles are for the whole page|train/page/svg.c|if (depth == 0 && !begun &&|if (0 && !begun &&"
  "report: no gnuplot, no page|train/page/report_page.c|if (status == LA_NAME) {|if (0) {"
  "results.csv: numbers of a curve without steps|train/page/results_csv.c|marks = marks_of(x, marks);|"
  "results.csv: the last digits lost|train/page/results_csv.c|digits <= 17|digits <= 15"
  "a coefficient of exp|tensor/vec_isa.h|p * r + 4.16666667e-2f|p * r + 4.16766667e-2f"
  "probe: losses by row, not by position|train/compare/probe.c|sum[i % p->length] += loss;|sum[i / p->length % p->length] += loss;"
  "probe: negative weights lower the sum|train/compare/probe.c|sum += fabs((double)w[j]);|sum += (double)w[j];"
  "child: what it wrote before it failed is lost|train/compare/child.c|(!rest && code)) continue;|code) continue;"
  "child: between fork and exec it has our handlers|train/compare/child.c|s.sa_handler != SIG_IGN) /* nohup */|s.sa_handler == SIG_IGN)"
  "measure: a wrong option is taken for a length too long|train/compare/measure.c|== USAGE && !*sound)|== USAGE && 0)"
  "a task's logits are counted at every token|train/bench_train.c|(double)(labels ? labels : T)|(double)T"
  "slopes: lengths that were refused count|train/compare/machine.c|if (!(isfinite(y[i]) && y[i] > 0)) continue;|"
  "nonfinite: skip:0 is taken|train/nonfinite.c|n >= 1 && n <= 1e12|n >= 0 && n <= 1e12"
  "nonfinite: more rollbacks than three|train/nonfinite.c|n >= 0 && n <= LA_MAX_ROLLBACKS|n >= 0"
  "spike: told again within a hundred steps|train/nonfinite.c|step - s->told >= LA_SPIKE_PAUSE|step - s->told >= 9"
  "spike: any loss above a narrow median|train/nonfinite.c|fmax(1, 5 *|fmax(0, 5 *"
  "spike: the smallest loss as the first quartile|train/nonfinite.c|- sorted[QUARTER - 1]|- sorted[0]"
  "spike: losses before it not kept|train/nonfinite.c|s->losses[s->n++ % LA_SPIKE_LOSSES] = loss;|if (!spike) s->losses[s->n++ % LA_SPIKE_LOSSES] = loss;"
  "spike: not told|train/loop.c|            note_spike(r, s.loss);|"
  "skip: one more than asked for|train/recover.c|if (r->skipped >= most)|if (r->skipped > most)"
  "skip: a finite step does not end a row|train/loop.c|            r->skipped = 0;|"
  "skip: steps are not counted|train/recover.c|    r->skipped++;|"
  "skip: the row is forgotten on resuming|train/run.c|    r->skipped = r->folder.skipped;|"
  "skip: a line with the loss|train/recover.c|*s = (la_step){NAN, NAN,|*s = (la_step){1, NAN,"
  "rollback: the older checkpoint first|train/recover.c|r->best_saved > r->last_saved;|r->best_saved < r->last_saved;"
  "rollback: the other checkpoint is not tried|train/recover.c|i < 2 && saved[i]|i < 1 && saved[i]"
  "rollback: weights without their moments|train/recover.c|if (s == LA_OK) s = la_checkpoint_optim(c, &r->trainer.optim);|"
  "rollback: moments without their weights|train/recover.c|if (s == LA_OK) s = la_checkpoint_params(c, r->trainer.lm->params);|"
  "rollback: the rate stays|train/recover.c|= c->lr /= 2;|= c->lr;"
  "rollback: the lowest rate stays|train/recover.c|= c->min_lr /= 2;|= c->min_lr;"
  "rollback: a resumed run has all of them again|train/recover.c|c->on_nonfinite = left[--r->on_nonfinite.times];|--r->on_nonfinite.times;"
  "rollback: one more than asked for|train/recover.c|if (r->on_nonfinite.times == 0)|if (r->on_nonfinite.times < 0)"
  "signals: a second one is ignored|train/system.c|    if (stop_signal) _exit(128 + signal);|"
  "signals: a run under nohup ends with its terminal|train/system.c|if (signal(SIGHUP, SIG_IGN) != SIG_IGN) sigaction|sigaction"
  "signals: SIGHUP ends a run without saving|train/system.c|!= SIG_IGN) sigaction(SIGHUP|!= SIG_IGN && 0) sigaction(SIGHUP"
  "signals: SIGUSR1 saves from then on|train/system.c|    save_wanted = 0;|"
  "signals: SIGUSR1 saves nothing|train/system.c|    save_wanted = 1;|"
  "signals: a sample is written to its end|train/loop.c|        .stop = la_signal_stop,|"
  "signals: an evaluation goes on to its end|train/loop.c|r->c->eval_iters, la_signal_stop, val)|r->c->eval_iters, NULL, val)"
  "signals: the loop goes on|train/loop.c|while (r->step < r->c->max_iters && !la_signal_stop() &&|while (r->step < r->c->max_iters &&"
  "loop: an evaluation that was cut short is not made up for|train/loop.c|s = la_folder_add_val_loss(|(void)("
  "loop: after the last step nothing is saved|train/run.c|if (r->last_saved != r->step) la_run_save(r, 0);|"
  "loop: the best loss is not carried on|train/resume.c|    r->best_val = was->best_val;|"
  "loop: the sample of the resumed step is not made up for|train/loop.c|if (!la_signal_stop()) LA_TRY(sample_if_due(r));|"
  "loop: a best loss found on resuming is not saved before it is noted|train/loop.c|            if (r->best_step == r->step) {|            if (0) {"
  "signals: an evaluation at the end goes on|train/run.c|r->texts.valid, c->eval_iters, la_signal_stop,|r->texts.valid, c->eval_iters, NULL,"
  "saving: the file is not synced|train/save_file.c|        e = sync_file(fd);|        e = 0;"
  "saving: the folder is not synced|train/save_file.c|    e = sync_folder(target);|    e = 0;"
  "saving: no space is reserved|train/save_file.c|    int e = reserve(fd, n);|    int e = 0;"
  "saving: a failed close is none|train/save_file.c|if (close(fd) != 0 && !e && errno != EINTR)|if (close(fd) != 0 && 0)"
  "saving: a temporary that failed stays|train/save_file.c|    if (e) unlink(temporary);|"
  "saving: a checkpoint is written in its place|train/save_file.c|snprintf(temporary, room, \"%s.tmp.%ld\", target,|snprintf(temporary, room, \"%s\", target), (void)snprintf(NULL, 0, \"%s%ld\", target,"
  "reading: any hash will do|train/save_file.c|    if (found != noted)|    if (0)"
  "reading: the length is believed|train/save_file.c|    if (length > (uint64_t)(size - LA_BLOCK))|    if (0)"
  "reading: any format will do|train/save_file.c|    if (format != LA_FILE_FORMAT)|    if (0)"
  "folder: two runs at a time|train/folder.c|errno != EWOULDBLOCK|1"
  "folder: lines after the checkpoint stay|train/folder.c|at > step;|0;"
  "folder: samples after the checkpoint stay|train/folder.c|la_append_open(&s->samples, path, O_CREAT, end)|la_append_open(&s->samples, path, O_CREAT, -1)"
  "folder: temporaries stay|train/folder.c|is_ours(e->d_name) : is_temporary(e->d_name)|is_ours(e->d_name) : 0"
  "folder: a row that was broken off is left so|train/folder.c|if (status == LA_OK && resumes) la_folder_finish_rotation(s);|"
  "folder: what is later than the step gone back to stays|train/folder.c|if (status == LA_OK && mode == LA_FOLDER_GO_BACK) status|if (0) status"
  "folder: any folder is a checkpoint's own|train/run.c|    if (own) mode|    own = r->resumes; if (own) mode"
  "folder: gone back, nothing is saved at first|train/run.c|    if (r->resumes && strcmp(c->resume, \"auto\") && r->last_saved != r->step) la_run_save(r, 0);|"
  "rotation: one step takes two places|train/rotation.c|s->keep > 1 && r->step != s->last_step &&|s->keep > 1 &&"
  "rotation: auto takes the oldest|train/rotation.c|->step >= la_checkpoint_record(*best)->step|->step < la_checkpoint_record(*best)->step"
  "rotation: what is damaged takes a place|train/rotation.c|(s->saved |(1 "
  "append: what was late is lost|train/append.c|    int e = a->n ? add(a, a->late, a->n) : 0;|    int e = 0;"
  "memory: saving takes nothing|train/memory_plan.c|p->saving > p->sampling ? p->saving : p->sampling;|p->sampling;"
  "memory: an evaluation takes nothing|train/memory_plan.c|p->train.step + p->train.evaluation + for_a_while|p->train.step + for_a_while"
  "memory: nothing is too much|train/memory_plan.c|to_come(p) <= p->available) return|1) return"
  "memory: limits of cgroups are not seen|train/system.c|else if (la_has_word(kinds + 1, \"memory\"))|else if (0)"
  "memory: ulimit -v is not seen|train/system.c|return memory && memory < left ? memory|return memory ? memory"
)

stale=0
for fault in "${faults[@]}"; do
  IFS='|' read -r what file was becomes <<<"$fault"
  text=
  [ -f "$root/$file" ] && text=$(<"$root/$file")
  rest=${text/"$was"/$'\n'}
  if [ "$rest" = "$text" ]; then
    echo "$what: the line is not in $file any more: $was"
  elif [ "${rest/"$was"/}" != "$rest" ]; then
    echo "$what: stands more than once in $file: $was"
  elif [ "$was" = "$becomes" ]; then
    echo "$what: changes nothing: $was"
  else
    continue
  fi
  stale=$((stale + 1))
done
if [ "$stale" -gt 0 ]; then
  echo "$stale of ${#faults[@]} faults do not apply; mend the table in tests/faults.sh"
  exit 1
elif [ "${1-}" = --check ]; then
  echo "${#faults[@]} faults apply"
  exit 0
fi

copy=$(mktemp -d "${TMPDIR:-/tmp}/lina-faults.XXXXXX")
trap 'rm -rf "$copy"' EXIT
cp -r "$root"/{tensor,autograd,layers,optim,data,train,tests,CMakeLists.txt,lina.pc.in} "$copy"
cd "$copy"
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build build >/dev/null
read -ra tests <<<"test_ops64 test_attention64 test_lm64 test_tape test_optim64 test_attention test_data test_ngram test_task test_statistics test_config test_report test_probe test_measure test_events test_tensor test_confined test_checkpoint"
# the steps of a run, and its folder, are tested as a program
of_a_run=(cli/nonfinite.sh cli/signals.sh test_train cli/resume.sh cli/train.sh)
of_a_folder=(cli/folder.sh cli/bad_input.sh cli/inject.sh cli/plan.sh cli/memory.sh)
try() { # TEST
  case $1 in
    *.sh) timeout 600 bash "tests/$1" build/bin ;;
    *) timeout 300 "build/bin/$1" ;;
  esac
}
for t in "${tests[@]}" "${of_a_run[@]}" "${of_a_folder[@]}"; do
  try "$t" >/dev/null || { echo "$t fails without any fault"; exit 1; }
done

missed=0
caught=0
for i in "${!faults[@]}"; do
  number=$((i + 1))
  if [ $# -gt 0 ] && ! printf '%s\n' "$@" | grep -qx "$number"; then continue; fi
  IFS='|' read -r what file was becomes <<<"${faults[$i]}"
  text=$(<"$file")
  cp -p "$file" "$file.good"
  printf '%s\n' "${text/"$was"/"$becomes"}" >"$file"
  result=MISSED
  if ! cmake --build build >build.log 2>&1; then
    result="does not compile"
  else
    order=("${tests[@]}")
    case $file in
      train/loop.c | train/nonfinite.c | train/recover.c | train/resume.c) order=("${of_a_run[@]}" "${tests[@]}") ;;
      train/run.c) order=("${of_a_run[@]}" "${of_a_folder[@]}" "${tests[@]}") ;;
      train/system.c) order=(test_measure "${of_a_run[@]}" "${of_a_folder[@]}" "${tests[@]}") ;;
      train/save_file.c | train/folder.c | train/rotation.c | train/append.c | train/memory_plan.c)
        order=("${of_a_folder[@]}" test_checkpoint test_events "${tests[@]}")
        ;;
      train/confined.c | train/decode.c) order=(test_confined test_checkpoint "${tests[@]}") ;;
    esac
    for t in "${order[@]}"; do
      if ! try "$t" >/dev/null 2>&1; then
        result="caught by $t"
        break
      fi
    done
  fi
  mv "$file.good" "$file"
  touch "$file"
  printf '%2d. %-52s %s\n' "$number" "$what" "$result"
  case $result in caught*) caught=$((caught + 1)) ;; *) missed=$((missed + 1)) ;; esac
done
echo "$caught faults caught, $missed not"
[ "$missed" -eq 0 ]
