// SPDX-License-Identifier: Apache-2.0
// What a scatter does, in exact arithmetic: the contract of sow for small arrays. The page that uses it checks it
// against results that sow itself computed when the documentation was built (playground-tables.js).
"use strict";
const Sow = (() => {
  // A binary format: significant bits, least exponent of a normal number, greatest exponent.
  const FORMATS = {
    float16: {digits: 11, low: -14, high: 15},
    bfloat16: {digits: 8, low: -126, high: 127},
    float32: {digits: 24, low: -126, high: 127},
    float64: {digits: 53, low: -1022, high: 1023},
  };
  const TYPES = [...Object.keys(FORMATS), "int32"];
  const REDUCTIONS = ["assign", "add", "mul", "amax", "amin", "mean"];

  // A finite number as a whole number times a power of two: {m: BigInt, e}.
  function exact(x) {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, x);
    const bits = view.getBigUint64(0);
    const biased = Number((bits >> 52n) & 0x7ffn);
    const fraction = bits & 0xfffffffffffffn;
    const m = biased === 0 ? fraction : fraction | (1n << 52n);
    return {m: bits >> 63n ? -m : m, e: Math.max(biased, 1) - 1075};
  }

  function plus(a, b) {
    const e = Math.min(a.e, b.e);
    return {m: (a.m << BigInt(a.e - e)) + (b.m << BigInt(b.e - e)), e};
  }

  const magnitude = (m) => (m < 0n ? -m : m);
  const bitLength = (m) => magnitude(m).toString(2).length;

  // m * 2^e as a float64, for a value that fits one.
  function toNumber({m, e}) {
    if (m === 0n) return 0;
    while (bitLength(m) > 53) { m /= 2n; e += 1; }  // only zeros are cut off
    let x = Number(m);
    for (; e > 0; e -= Math.min(e, 500)) x *= 2 ** Math.min(e, 500);
    for (; e < 0; e += Math.min(-e, 500)) x *= 2 ** -Math.min(-e, 500);
    return x;
  }

  // The two neighbours of an exact value in a format, and the nearest of them, ties to even.
  function neighbours(type, value) {
    const {digits, low, high} = FORMATS[type];
    const negative = value.m < 0n, m = magnitude(value.m);
    if (m === 0n) return {below: 0, above: 0, nearest: 0, tie: false, exact: true};
    const top = bitLength(m) - 1 + value.e;
    const unit = Math.max(top, low) - (digits - 1);
    const shift = unit - value.e;
    let kept, up, tie = false, whole = true;
    if (shift <= 0) {
      kept = m << BigInt(-shift);
      up = false;
    } else {
      kept = m >> BigInt(shift);
      const rest = m - (kept << BigInt(shift)), half = 1n << BigInt(shift - 1);
      tie = rest === half;
      whole = rest === 0n;
      up = rest > half || (tie && (kept & 1n) === 1n);
    }
    const finish = (count) => {
      const limit = bitLength(count) - 1 + unit > high && count !== 0n;
      const x = limit ? Infinity : toNumber({m: count, e: unit});
      return negative ? -x : x;
    };
    const near = finish(kept), far = whole ? near : finish(kept + 1n);
    return {below: negative ? far : near, above: negative ? near : far, nearest: up ? far : near, tie, exact: whole};
  }

  function round(type, x) {
    if (type === "int32") return x;
    if (!Number.isFinite(x) || x === 0) return x;
    return neighbours(type, exact(x)).nearest;
  }

  // The exact decimal digits of m * 2^e.
  function decimal({m, e}) {
    const sign = m < 0n ? "-" : "";
    m = magnitude(m);
    if (e >= 0) return sign + (m << BigInt(e)).toString();
    while (e < 0 && m % 2n === 0n) { m /= 2n; e += 1; }
    if (e === 0) return sign + m.toString();
    const scaled = (m * 5n ** BigInt(-e)).toString().padStart(-e + 1, "0");
    return sign + scaled.slice(0, e) + "." + scaled.slice(e);
  }

  // ---- reductions: the terms of one place, in order, the old value first where it takes part
  const isMinusZero = (x) => Object.is(x, -0);

  function sumOf(terms) {
    if (terms.some(Number.isNaN)) return {special: NaN};
    const positive = terms.includes(Infinity), negative = terms.includes(-Infinity);
    if (positive && negative) return {special: NaN};
    if (positive || negative) return {special: positive ? Infinity : -Infinity};
    const total = terms.reduce((sum, x) => plus(sum, exact(x)), {m: 0n, e: 0});
    if (total.m === 0n) return {special: terms.every(isMinusZero) ? -0 : 0, total};
    return {total};
  }

  function rounded(type, sum) {
    return "special" in sum ? sum.special : neighbours(type, sum.total).nearest;
  }

  function best(terms, sign) {
    return terms.reduce((a, b) => {
      if (Number.isNaN(a) || Number.isNaN(b)) return NaN;
      if (a === 0 && b === 0) return isMinusZero(a) === (sign > 0) ? b : a;
      return sign * (b - a) > 0 ? b : a;
    });
  }

  function reduceFloat(type, reduce, terms, old) {
    switch (reduce) {
      case "assign": return terms[terms.length - 1];
      case "add": return rounded(type, sumOf(old.concat(terms)));
      case "mean": {
        const all = old.concat(terms);
        return round(type, rounded("float64", sumOf(all)) / all.length);
      }
      case "mul": {
        let product = old.length ? old[0] : undefined;
        for (let at = 0; at < terms.length; at += 256) {
          const chunk = terms.slice(at, at + 256).reduce((a, b) => a * b, 1);
          product = product === undefined ? chunk : product * chunk;
        }
        return round(type, product);
      }
      default: return best(old.concat(terms), reduce === "amax" ? 1 : -1);
    }
  }

  function reduceInteger(reduce, terms, old) {
    const all = old.concat(terms).map(BigInt);
    switch (reduce) {
      case "assign": return terms[terms.length - 1];
      case "add": return Number(BigInt.asIntN(32, all.reduce((a, b) => a + b)));
      case "mul": return Number(BigInt.asIntN(32, all.reduce((a, b) => a * b)));
      case "mean": {
        const sum = BigInt.asIntN(64, all.reduce((a, b) => a + b)), count = BigInt(all.length);
        const quotient = sum / count;
        return Number(sum % count !== 0n && sum < 0n ? quotient - 1n : quotient);
      }
      case "amax": return Number(all.reduce((a, b) => (b > a ? b : a)));
      default: return Number(all.reduce((a, b) => (b < a ? b : a)));
    }
  }

  // ---- operations: which source element goes where, in order. Arrays are {shape, data}, row-major.
  const count = (shape) => shape.reduce((a, b) => a * b, 1);

  function unravel(position, shape) {
    const out = new Array(shape.length);
    for (let d = shape.length - 1; d >= 0; --d) {
      out[d] = position % shape[d];
      position = Math.floor(position / shape[d]);
    }
    return out;
  }

  const ravel = (at, shape) => at.reduce((sum, i, d) => sum * shape[d] + i, 0);

  class Refusal extends Error {}

  // A key as a place of an axis of `size`: wrapped and checked; null where it is dropped.
  function place(key, size, bounds, told) {
    if (key >= -size && key < 0) return key + size;
    if (key >= 0 && key < size) return key;
    if (bounds === "drop") return null;
    if (bounds === "clip") return key < 0 ? 0 : size - 1;
    throw new Refusal(`${told.op}: index ${key} at position [${told.position.join(", ")}] is out of range for axis ${told.axis} ` +
                      `of size ${size} (valid: ${-size} to ${size - 1})`);
  }

  const OPERATIONS = {
    scatter_reduce: {
      words: "along an axis: source[i] goes to destination[index[i]]", uses: ["index", "axis", "reduce"],
      moves({x, index, source, axis, bounds}, op) {
        if (index.shape.length !== x.shape.length || source.shape.length !== x.shape.length)
          throw new Refusal(`${op}: index and source need as many dimensions as the destination`);
        index.shape.forEach((n, d) => {
          if (n > source.shape[d] || (d !== axis && n > x.shape[d])) throw new Refusal(`${op}: the index is larger than the source, or than the destination off the axis`);
        });
        const moves = [];
        for (let i = 0; i < count(index.shape); ++i) {
          const at = unravel(i, index.shape);
          const to = place(index.data[i], x.shape[axis], bounds, {op, position: at, axis});
          moves.push({from: ravel(at, source.shape), to: to === null ? null : ravel(at.map((n, d) => (d === axis ? to : n)), x.shape)});
        }
        return moves;
      },
    },
    index_reduce: {
      words: "whole rows: row j of the source goes to row index[j]", uses: ["index", "reduce"],
      moves({x, index, source, bounds}, op) {
        if (index.shape.length !== 1) throw new Refusal(`${op}: the index has one dimension`);
        const row = count(x.shape.slice(1)), given = count(source.shape.slice(1));
        if (source.shape.length !== x.shape.length || row !== given || source.shape[0] !== index.shape[0])
          throw new Refusal(`${op}: the source needs one row of the destination's width for each index`);
        const moves = [];
        index.data.forEach((key, j) => {
          const to = place(key, x.shape[0], bounds, {op, position: [j], axis: 0});
          for (let c = 0; c < row; ++c) moves.push({from: j * row + c, to: to === null ? null : to * row + c});
        });
        return moves;
      },
    },
    tensor_scatter_nd_update: {
      words: "by coordinates: each row of the index names one place", uses: ["index"], assign: true,
      moves({x, index, source, bounds}, op) {
        const rank = x.shape.length;
        if (index.shape[index.shape.length - 1] !== rank) throw new Refusal(`${op}: each row of the index needs ${rank} coordinates`);
        const items = count(index.shape) / rank;
        if (count(source.shape) !== items || source.shape.length !== index.shape.length - 1) throw new Refusal(`${op}: the source needs one element for each row of the index`);
        const moves = [];
        for (let i = 0; i < items; ++i) {
          const at = x.shape.map((size, d) => place(index.data[i * rank + d], size, bounds, {op, position: [i, d], axis: d}));
          moves.push({from: i, to: at.includes(null) ? null : ravel(at, x.shape)});
        }
        return moves;
      },
    },
    masked_scatter: {
      words: "the trues of a mask take the source, in order", uses: ["mask"], assign: true,
      moves({x, index, source}, op) {
        if (index.shape.length !== x.shape.length || index.shape.some((n, d) => n !== x.shape[d])) throw new Refusal(`${op}: the mask needs the destination's shape here`);
        const moves = [];
        index.data.forEach((on, i) => { if (on) moves.push({from: moves.length, to: i}); });
        if (moves.length > count(source.shape))
          throw new Refusal(`${op}: mask has ${moves.length} true values but value has only ${count(source.shape)} elements`);
        return moves;
      },
    },
    diagonal_scatter: {
      words: "the source replaces a diagonal", uses: ["offset"], assign: true,
      moves({x, source, offset}, op) {
        if (x.shape.length !== 2) throw new Refusal(`${op}: the destination is a matrix here`);
        const [rows, columns] = x.shape, r = Math.max(0, -offset), c = Math.max(0, offset);
        const length = Math.max(0, Math.min(rows - r, columns - c));
        if (source.shape.length !== 1 || source.shape[0] !== length) throw new Refusal(`${op}: the source needs the diagonal's shape [${length}]`);
        return source.data.map((_, i) => ({from: i, to: (r + i) * columns + c + i}));
      },
    },
  };

  // Everything about a call: the moves in order, the terms of each place, and the result.
  function run(call) {
    const operation = OPERATIONS[call.op];
    const reduce = operation.assign ? "assign" : call.reduce;
    const moves = operation.moves(call, call.op);
    const terms = new Map();
    for (const {from, to} of moves)
      if (to !== null) terms.set(to, (terms.get(to) || []).concat([call.source.data[from]]));
    const data = call.x.data.slice();
    for (const [to, updates] of terms) {
      const old = call.includeSelf && reduce !== "assign" ? [call.x.data[to]] : [];
      data[to] = call.type === "int32" ? reduceInteger(reduce, updates, old) : reduceFloat(call.type, reduce, updates, old);
    }
    return {moves, terms, reduce, result: {shape: call.x.shape, data}};
  }

  // A sum that rounds to the type after each step, as a plain loop does.
  function plainSum(type, terms) {
    return terms.reduce((sum, x) => round(type, sum + x));
  }

  const same = (a, b) => Object.is(a, b) || (Number.isNaN(a) && Number.isNaN(b));

  // How many of the tables' cases come out as sow says, and the first that does not.
  function check(tables) {
    let right = 0, wrong = null;
    const number = (x) => (typeof x === "string" ? {nan: NaN, inf: Infinity, "-inf": -Infinity, "-0": -0}[x] : x);
    const array = (a) => ({shape: a.shape, data: a.data.map(number)});
    for (const entry of tables) {
      const call = {...entry.call, x: array(entry.call.x), source: array(entry.call.source), index: entry.call.index && array(entry.call.index)};
      let good;
      try {
        const found = run(call).result.data;
        good = "result" in entry && found.every((x, i) => same(x, number(entry.result[i])));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        good = "error" in entry && error.message === entry.error;
      }
      if (good) right += 1;
      else wrong = wrong || entry;
    }
    return {right, total: tables.length, wrong};
  }

  return {TYPES, REDUCTIONS, OPERATIONS, FORMATS, Refusal, run, check, round, exact, plus, sumOf, neighbours, decimal, plainSum, unravel, count, same};
})();
if (typeof module !== "undefined") module.exports = Sow;
