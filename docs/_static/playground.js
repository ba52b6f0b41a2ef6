// SPDX-License-Identifier: Apache-2.0
// The playground's page: reads what is typed, shows where each value goes, step by step, and the code for it.
"use strict";
(() => {
  const PRESETS = {
    "values meet": {op: "scatter_reduce", type: "float32", reduce: "add", includeSelf: true, bounds: "error", axis: 0, offset: 0,
                    x: "0 0 0 0 0 0", index: "0 2 2 5 0", source: "1 2 3 4 5"},
    "ones in bfloat16": {op: "scatter_reduce", type: "bfloat16", reduce: "add", includeSelf: true, bounds: "error", axis: 0, offset: 0,
                         x: "256 0 0", index: "0 0 0 0 0 0 0 0", source: "1 1 1 1 1 1 1 1"},
    cancellation: {op: "scatter_reduce", type: "float32", reduce: "add", includeSelf: true, bounds: "error", axis: 0, offset: 0,
                   x: "0 0 0", index: "0 0 1 0", source: "1e8 1 7 -1e8"},
    "mean of a group": {op: "index_reduce", type: "float32", reduce: "mean", includeSelf: false, bounds: "error", axis: 0, offset: 0,
                        x: "0 0\n0 0\n9 9", index: "1 0 1", source: "1 2\n3 4\n6 7"},
    "image tokens": {op: "masked_scatter", type: "float16", reduce: "assign", includeSelf: true, bounds: "error", axis: 0, offset: 0,
                     x: "1 2 3 4\n5 6 7 8", index: "0 1 1 0\n0 0 0 1", source: "10 20 30"},
    "KV cache": {op: "index_reduce", type: "float16", reduce: "assign", includeSelf: true, bounds: "drop", axis: 0, offset: 0,
                 x: "0 0\n0 0\n0 0\n0 0", index: "2 0 4", source: "1 1\n2 2\n9 9"},
    "a bad index": {op: "scatter_reduce", type: "float32", reduce: "amax", includeSelf: true, bounds: "error", axis: 1, offset: 0,
                    x: "0 0 0 0 0\n0 0 0 0 0", index: "0 7", source: "1 2"},
    coordinates: {op: "tensor_scatter_nd_update", type: "int32", reduce: "assign", includeSelf: true, bounds: "error", axis: 0, offset: 0,
                  x: "0 0 0\n0 0 0", index: "0 1\n1 2\n0 1", source: "5 6 7"},
    diagonal: {op: "diagonal_scatter", type: "float64", reduce: "assign", includeSelf: true, bounds: "error", axis: 0, offset: 1,
               x: "0 0 0\n0 0 0\n0 0 0", index: "", source: "1 2"},
  };

  // ---- text to arrays and back
  const words = {nan: NaN, inf: Infinity, "-inf": -Infinity, true: 1, false: 0};
  function number(text) {
    const x = text.toLowerCase() in words ? words[text.toLowerCase()] : Number(text);
    if (text === "" || (Number.isNaN(x) && text.toLowerCase() !== "nan")) throw new Sow.Refusal(`"${text}" is no number`);
    return x;
  }

  function parse(text, type, name, rank) {
    const rows = text.trim().split(/[\n;]+/).filter((row) => row.trim()).map((row) => row.trim().split(/[\s,]+/).map(number));
    if (!rows.length) throw new Sow.Refusal(`${name}: nothing is there`);
    if (rows.some((row) => row.length !== rows[0].length)) throw new Sow.Refusal(`${name}: the rows have different lengths`);
    const data = rows.flat().map((x) => (type ? Sow.round(type, x) : x));
    if (data.length > 64) throw new Sow.Refusal(`${name}: more than 64 numbers are hard to look at`);
    if ((!type || type === "int32") && data.some((x) => !Number.isInteger(x) || Math.abs(x) > 2 ** 31)) throw new Sow.Refusal(`${name}: whole numbers, please`);
    const shape = rows.length === 1 && rank !== 2 ? [data.length] : [rows.length, rows[0].length];
    return {shape, data};
  }

  // The shortest digits that are this number in its type.
  function show(x, type) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
    if (x === 0) return Object.is(x, -0) ? "-0" : "0";
    for (let digits = 1; digits < 17; ++digits) {
      const text = String(Number(x.toPrecision(digits)));
      if (!(type in Sow.FORMATS) ? Number(text) === x : Sow.round(type, Number(text)) === x) return text;
    }
    return String(x);
  }

  // ---- code
  const LISTS = {python: ["[", "]"], cpp: ["{", "}"]};
  function literal(x, language) {
    if (Number.isFinite(x)) return Object.is(x, -0) ? "-0.0" : String(x);
    if (language === "cpp") return Number.isNaN(x) ? "NAN" : x > 0 ? "INFINITY" : "-INFINITY";
    return `float("${Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf"}")`;
  }
  function nested({shape, data}, bool) {
    const text = data.map((x) => (bool ? (x ? "True" : "False") : literal(x, "python")));
    if (shape.length === 1) return `[${text.join(", ")}]`;
    const rows = [];
    for (let r = 0; r < shape[0]; ++r) rows.push(`[${text.slice(r * shape[1], (r + 1) * shape[1]).join(", ")}]`);
    return `[${rows.join(", ")}]`;
  }
  function code(call, language) {
    const mask = call.op === "masked_scatter", python = language !== "cpp";
    const quoted = (name) => `"${name}"`;
    const make = {
      numpy: (a, type) => (type === "bfloat16" ? `np.array(${nested(a)}, ml_dtypes.bfloat16)` : `np.array(${nested(a, type === "bool")}, "${type}")`),
      torch: (a, type) => `torch.tensor(${nested(a, type === "bool")}, dtype=torch.${type})`,
      paddle: (a, type) => `paddle.to_tensor(${nested(a, type === "bool")}, dtype="${type}")`,
      cpp: (a, type) => {
        const shape = `{${a.shape.join(", ")}}`, list = (bool) => a.data.map((x) => (bool ? (x ? "true" : "false") : literal(x, "cpp"))).join(", ");
        if (type === "bool") return `Tensor::of<bool>({${list(true)}}, ${shape})`;
        if (type === "int64" || type === "int32") return `Tensor::of<${type}_t>({${list()}}, ${shape})`;
        const doubles = `Tensor::of<double>({${list()}}, ${shape})`;
        return type === "float64" ? doubles : `to(${doubles}, DType::${type})`;
      },
    }[language];
    const truth = (value) => (python ? (value ? "True" : "False") : String(value));
    const index = python || call.bounds === "error" || mask ? "index" : `Index(index, Bounds::${call.bounds})`;
    const more = python && call.bounds !== "error" ? `, bounds=${quoted(call.bounds)}` : "";
    const self = call.includeSelf ? "" : python ? ", include_self=False" : `, ${truth(false)}`;
    const calls = {
      scatter_reduce: `scatter_reduce(x, ${call.axis}, ${index}, source, ${quoted(call.reduce)}${self}${more})`,
      index_reduce: `index_reduce(x, 0, ${index}, source, ${quoted(call.reduce)}${self}${more})`,
      tensor_scatter_nd_update: `tensor_scatter_nd_update(x, ${index}, source${more})`,
      masked_scatter: "masked_scatter(x, index, source)",
      diagonal_scatter: `diagonal_scatter(x, source, ${call.offset})`,
    };
    const lines = [["x", call.x, call.type], ["index", call.index, mask ? "bool" : "int64"], ["source", call.source, call.type]]
      .filter(([, array]) => array).map(([name, array, type]) => `${python ? "" : "  Tensor "}${name} = ${make(array, type)}${python ? "" : ";"}`);
    if (!python)
      return ["#include <sow/sow.h>", "#include <cmath>", "#include <iostream>", "using namespace sow;", "", "int main() {", ...lines,
              `  std::cout << ${calls[call.op]} << "\\n";`, "}"].join("\n");
    const imports = {numpy: call.type === "bfloat16" ? "import ml_dtypes\nimport numpy as np" : "import numpy as np", torch: "import torch", paddle: "import paddle"}[language];
    return [imports, "import sow", "", ...lines, `result = sow.${calls[call.op]}`, "print(result)"].join("\n");
  }

  // ---- the page
  const page = document.getElementById("sow-playground");
  if (!page) return;
  const $ = (name) => page.querySelector(`[data-is="${name}"]`);
  const state = {call: null, run: null, step: 0, place: null, language: "numpy", timer: null, error: ""};

  const options = (list, label = (x) => x) => list.map((name) => `<option value="${name}">${label(name)}</option>`).join("");
  page.innerHTML = `
    <div class="pg-presets">${Object.keys(PRESETS).map((name) => `<button type="button" data-preset="${name}">${name}</button>`).join("")}</div>
    <div class="pg-controls">
      <label>operation<select data-is="op">${options(Object.keys(Sow.OPERATIONS))}</select></label>
      <label>type<select data-is="type">${options(Sow.TYPES)}</select></label>
      <label data-for="reduce">reduction<select data-is="reduce">${options(Sow.REDUCTIONS)}</select></label>
      <label data-for="index">bounds<select data-is="bounds">${options(["error", "drop", "clip"])}</select></label>
      <label data-for="axis">axis<select data-is="axis">${options(["0", "1"])}</select></label>
      <label data-for="offset">offset<input data-is="offset" type="number" value="0" min="-8" max="8"></label>
      <label data-for="reduce" class="pg-check"><input data-is="includeSelf" type="checkbox" checked> include the old value</label>
    </div>
    <p class="pg-words" data-is="words"></p>
    <div class="pg-arrays">
      <label>destination<textarea data-is="x" rows="3" spellcheck="false"></textarea></label>
      <label data-for="index mask"><span data-is="indexname">index</span><textarea data-is="index" rows="3" spellcheck="false"></textarea></label>
      <label>source<textarea data-is="source" rows="3" spellcheck="false"></textarea></label>
    </div>
    <p class="pg-error" data-is="error" role="alert"></p>
    <div class="pg-stage" data-is="stage"></div>
    <div class="pg-player">
      <button type="button" data-is="play">play</button>
      <input data-is="slider" type="range" min="0" value="0" aria-label="step"><span data-is="count"></span>
    </div>
    <div class="pg-place" data-is="place" aria-live="polite"></div>
    <div class="pg-tabs" role="tablist">${[["cpp", "C++"], ["numpy", "NumPy"], ["torch", "PyTorch"], ["paddle", "Paddle"]]
      .map(([name, title]) => `<button type="button" role="tab" data-language="${name}">${title}</button>`).join("")}</div>
    <pre class="pg-code"><code data-is="code"></code></pre>
    <p class="pg-check-line" data-is="check"></p>`;

  const FIELDS = ["op", "type", "reduce", "bounds", "axis", "offset", "x", "index", "source"];

  function call_of(given) {
    const operation = Sow.OPERATIONS[given.op], mask = operation.uses.includes("mask");
    const x = parse(given.x, given.type, "destination");
    const nd = given.op === "tensor_scatter_nd_update", flat = given.op === "masked_scatter" || given.op === "diagonal_scatter" || nd;
    const rank = x.shape.length;
    const index = operation.uses.includes("index") || mask ? parse(given.index, null, mask ? "mask" : "index", nd ? 2 : given.op === "index_reduce" ? 1 : rank) : null;
    const source = parse(given.source, given.type, "source", flat ? 1 : rank);
    return {...given, axis: Math.min(Number(given.axis), rank - 1), offset: Number(given.offset), x, index, source};
  }

  function read() {
    const given = {includeSelf: $("includeSelf").checked};
    for (const name of FIELDS) given[name] = $(name).value;
    return given;
  }

  function update() {
    const given = read(), operation = Sow.OPERATIONS[given.op];
    $("words").textContent = operation.words + ".";
    $("indexname").textContent = operation.uses.includes("mask") ? "mask (1 and 0)" : "index";
    for (const label of page.querySelectorAll("[data-for]"))
      label.hidden = !label.dataset.for.split(" ").some((use) => operation.uses.includes(use));
    state.error = "";
    try {
      state.call = call_of(given);
      state.run = Sow.run(state.call);
    } catch (error) {
      if (!(error instanceof Sow.Refusal)) throw error;
      state.error = error.message;
      state.run = null;
    }
    state.step = state.run ? state.run.moves.length : 0;
    state.place = state.run && state.run.terms.size ? [...state.run.terms].sort((a, b) => b[1].length - a[1].length)[0][0] : null;
    draw();
  }

  // ---- drawing
  const CELL = {w: 54, h: 34, gap: 6};
  function grid(array, left, top, cell) {
    const columns = array.shape.length === 1 ? array.shape[0] : array.shape[1];
    return array.data.map((x, i) => cell(x, i, left + (i % columns) * (CELL.w + CELL.gap), top + Math.floor(i / columns) * (CELL.h + CELL.gap)));
  }
  const width = (array) => (array.shape.length === 1 ? array.shape[0] : array.shape[1]) * (CELL.w + CELL.gap);
  const height = (array) => (array.shape.length === 1 ? 1 : array.shape[0]) * (CELL.h + CELL.gap);

  function stage() {
    const {call, run, step} = state;
    if (!run) return "";
    const done = run.moves.slice(0, step);
    const partial = partly(call, done);
    const total = Math.max(width(call.source), width(call.x)) + 20;
    const sourceTop = 26, targetTop = sourceTop + height(call.source) + 52;
    const left = {source: (total - width(call.source)) / 2, x: (total - width(call.x)) / 2};
    const centre = {};
    const reached = new Map();
    run.moves.forEach((move, k) => reached.set(move.from, k));
    const parts = [`<text x="8" y="16" class="pg-title">source, in order</text>`, `<text x="8" y="${targetTop + height(call.x) + 14}" class="pg-title">destination after ${step} of ${run.moves.length}</text>`];
    parts.push(...grid(call.source, left.source, sourceTop, (x, i, cx, cy) => {
      centre[`s${i}`] = [cx + CELL.w / 2, cy + CELL.h];
      const k = reached.get(i);
      const used = k === undefined ? "pg-unused" : run.moves[k].to === null ? "pg-dropped" : k === step - 1 ? "pg-now" : "";
      return `<g class="pg-cell ${used}"><rect x="${cx}" y="${cy}" width="${CELL.w}" height="${CELL.h}" rx="5"/><text x="${cx + CELL.w / 2}" y="${cy + 22}">${show(x, call.type)}</text>` +
        `<title>source element ${i}${k === undefined ? ": not used" : run.moves[k].to === null ? ": dropped" : `: step ${k + 1}, to place ${run.moves[k].to}`}</title></g>`;
    }));
    const cells = grid(call.x, left.x, targetTop, (x, i, cx, cy) => {
      centre[`d${i}`] = [cx + CELL.w / 2, cy];
      const touched = done.some((move) => move.to === i), now = step && run.moves[step - 1].to === i;
      return `<g class="pg-cell pg-target ${touched ? "pg-touched" : ""} ${now ? "pg-now" : ""} ${state.place === i ? "pg-chosen" : ""}" data-place="${i}" tabindex="0" role="button">` +
        `<rect x="${cx}" y="${cy}" width="${CELL.w}" height="${CELL.h}" rx="5"/><text x="${cx + CELL.w / 2}" y="${cy + 22}">${show(partial[i], call.type)}</text>` +
        `<title>place ${i}: ${show(x, call.type)} before, ${show(partial[i], call.type)} now</title></g>`;
    });
    done.forEach((move, k) => {
      if (move.to === null) return;
      const [x1, y1] = centre[`s${move.from}`], [x2, y2] = centre[`d${move.to}`], now = k === step - 1;
      const bend = (y1 + y2) / 2, path = `M${x1},${y1} C${x1},${bend} ${x2},${bend} ${x2},${y2}`;
      parts.push(`<path d="${path}" class="pg-arrow ${now ? "pg-now" : ""} ${move.to === state.place ? "pg-toplace" : ""}"/>`);
      if (now && state.timer) parts.push(`<circle r="6" class="pg-ball"><animateMotion dur="0.7s" fill="freeze" path="${path}"/></circle>`);
    });
    parts.push(...cells);
    const tall = targetTop + height(call.x) + 22;
    return `<svg viewBox="0 0 ${total} ${tall}" style="max-width:${total}px" role="img" aria-label="each source value and its place">${parts.join("")}</svg>`;
  }

  // The destination after some of the moves.
  function partly(call, moves) {
    const limited = {...Sow.OPERATIONS[call.op], moves: () => moves};
    const whole = Sow.OPERATIONS[call.op];
    Sow.OPERATIONS[call.op] = limited;
    try { return Sow.run(call).result.data; } finally { Sow.OPERATIONS[call.op] = whole; }
  }

  const row = (name, text) => `<tr><th>${name}</th><td>${text}</td></tr>`;
  function about_place() {
    const {call, run, place} = state;
    if (!run || place === null) return "";
    const updates = run.terms.get(place) || [], type = call.type;
    const old = call.includeSelf && run.reduce !== "assign" ? [call.x.data[place]] : [];
    const value = (x) => show(x, type);
    const at = call.x.shape.length === 1 ? `[${place}]` : `[${Sow.unravel(place, call.x.shape).join(", ")}]`;
    const rows = [row("updates, in order", updates.length ? updates.map(value).join(", ") : "none: the place keeps its value, bit for bit")];
    if (run.reduce !== "assign") rows.push(row("old value", call.includeSelf ? `${value(call.x.data[place])} takes part` : `${value(call.x.data[place])} does not take part`));
    const result = run.result.data[place], all = old.concat(updates);
    if (updates.length && run.reduce === "assign" && updates.length > 1) rows.push(row("who wins", `the last, ${value(result)}`));
    if (updates.length && (run.reduce === "add" || run.reduce === "mean") && type !== "int32") {
      const sum = Sow.sumOf(all);
      rows.push(row("exact sum", sum.total ? Sow.decimal(sum.total) : value(sum.special)));
      if (sum.total && run.reduce === "add" && sum.total.m !== 0n) {
        const near = Sow.neighbours(type, sum.total);
        rows.push(row("rounded once", near.exact ? `${value(result)}: it is a ${type}` :
          `between ${value(near.below)} and ${value(near.above)}; ${near.tie ? "a tie, to the even one" : "to the nearest"}: ${value(near.nearest)}`));
        const plain = Sow.plainSum(type, all);
        rows.push(row("a loop that rounds each time", Sow.same(plain, result) ? `${value(plain)}, the same here` : `<b class="pg-off">${value(plain)}</b>`));
      }
      if (run.reduce === "mean") rows.push(row("divided by", `${all.length}, in float64, then rounded to ${type}`));
    }
    if (updates.length && run.reduce === "mul") rows.push(row("product", `${all.map(value).join(" × ")}, in ${type === "int32" ? "int32, wrapping" : "float64, rounded once at the end"}`));
    rows.push(row("result", `<b>${value(result)}</b>`));
    return `<p class="pg-placename">Place ${at}</p><table>${rows.join("")}</table>`;
  }

  function draw() {
    const steps = state.run ? state.run.moves.length : 0;
    $("error").textContent = state.error;
    $("stage").innerHTML = stage();
    $("slider").max = steps;
    $("slider").value = state.step;
    $("count").textContent = state.run ? `${state.step} of ${steps}` : "";
    $("place").innerHTML = about_place();
    $("play").textContent = state.timer ? "stop" : "play";
    for (const tab of page.querySelectorAll("[data-language]")) tab.setAttribute("aria-selected", tab.dataset.language === state.language);
    $("code").textContent = state.call ? code(state.call, state.language) : "";
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
  }
  function play() {
    if (state.timer) { stop(); draw(); return; }
    if (!state.run) return;
    state.step = state.step >= state.run.moves.length ? 0 : state.step;
    state.timer = setInterval(() => {
      if (state.step >= state.run.moves.length) { stop(); draw(); return; }
      state.step += 1;
      const {to} = state.run.moves[state.step - 1];
      state.place = to === null ? state.place : to;
      draw();
    }, 900);
    draw();
  }

  function load(name) {
    stop();
    const preset = PRESETS[name];
    for (const field of FIELDS) $(field).value = preset[field];
    $("includeSelf").checked = preset.includeSelf;
    for (const button of page.querySelectorAll("[data-preset]")) button.setAttribute("aria-pressed", button.dataset.preset === name);
    update();
  }

  page.addEventListener("input", (event) => {
    stop();
    if (event.target === $("slider")) { state.step = Number(event.target.value); draw(); } else update();
  });
  page.addEventListener("click", (event) => {
    const button = event.target.closest("[data-preset], [data-language], [data-place], [data-is=play]");
    if (!button) return;
    if (button.dataset.preset) load(button.dataset.preset);
    else if (button.dataset.language) { state.language = button.dataset.language; draw(); }
    else if (button.dataset.place) { state.place = Number(button.dataset.place); draw(); }
    else play();
  });

  const checked = Sow.check(SOW_TABLES.cases);
  $("check").textContent = checked.right === checked.total ?
    `This page computes in your browser. It was just checked against ${checked.total} results that sow ${SOW_TABLES.version} computed when the page was built: all are the same, bit for bit.` :
    `Only ${checked.right} of ${checked.total} results are those of sow ${SOW_TABLES.version}: do not trust this page.`;
  load("ones in bfloat16");

  if (location.hash === "#selftest") {  // for tests: everything the page would show, as text
    const told = {check: checked, presets: []};
    for (const name of Object.keys(PRESETS)) {
      load(name);
      const codes = Object.fromEntries(["cpp", "numpy", "torch", "paddle"].map((language) => [language, state.call ? code(state.call, language) : ""]));
      told.presets.push({name, error: state.error, type: state.call.type, result: state.run && state.run.result.data.map((x) => show(x, state.call.type)), codes, place: $("place").innerText});
    }
    const out = document.createElement("pre");
    out.id = "selftest";
    out.textContent = JSON.stringify(told);
    document.body.append(out);
  }
})();
