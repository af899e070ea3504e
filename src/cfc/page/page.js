// Okabe and Ito's colours; lines also differ by dashes and markers
const COLOURS = ["#0072b2", "#d55e00", "#007a5a", "#a3478a", "#000000", "#8a6100", "#3c7ea6"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const MARKERS = ["circle", "square", "triangle-up", "diamond", "x", "star", "cross", "hexagon"];

// the curves drawn unless all are asked for: one confidence score, for most order alike
const SHOWN = ["max_softmax", "fds", "one_step_relative", "one_step_sum", "group_shap", "exposed_fds"];

// --- start ---

const run = JSON.parse(await unpack("values"));
const library = document.createElement("script");
library.textContent = await unpack("library");
document.head.append(library);

const titleOf = (list, name) => list.find((entry) => entry.name === name)?.title ?? name;
const pairOf = (key) => run.pairs.find((pair) => pair.key === key);
const loaded = new Map();
let unit = null;
const state = {
  rule: run.rules[0].name,
  pair: (pairOf("fds_risk") ?? run.pairs[0]).key,
  measure: run.measures[0].key,
  scope: "run",
  dataset: run.datasets[0].name,
  model: run.models[0].name,
  seed: String(run.seeds[0]),
  id: null,
};

const unitKey = () => `${state.dataset}/${state.model}/${state.seed}`;

// of a run part of the way some units are missing: keep what was just chosen, and as much else as can be
function settle(kept) {
  const names = ["dataset", "model", "seed"];
  const same = (parts, name) => parts[names.indexOf(name)] === String(state[name]);
  const nearness = (key) => {
    const parts = key.split("/");
    return names.reduce((sum, name) => sum + (same(parts, name) ? (kept.includes(name) ? 10 : 1) : 0), 0);
  };
  const best = run.units.reduce((a, b) => (nearness(b) > nearness(a) ? b : a));
  names.forEach((name, k) => { state[name] = best.split("/")[k]; });
}
settle(["dataset"]);
const unitTitle = () =>
  `${titleOf(run.datasets, state.dataset)}, ${titleOf(run.models, state.model)}, seed ${state.seed}`;

async function loadUnit() {
  const key = unitKey();
  if (!loaded.has(key)) {
    loaded.set(key, JSON.parse(await unpack(`unit-${run.units.indexOf(key)}`)));
  }
  return loaded.get(key);
}

// --- scores of a case: values and ranks are stored in the risk sign ---

function scoreOf(index, key = state.pair) {
  const pair = pairOf(key);
  const at = unit.scores.indexOf(pair.score);
  if (at < 0) return { value: null, rank: null, of: 0 };
  const of = unit.ranked[at];
  let value = unit.cases.values[at][index];
  let rank = unit.cases.ranks[at][index];
  if (pair.sign === "paper") {
    value = value === null ? null : -value;
    rank = rank === null ? null : of + 1 - rank;
  }
  return { value, rank, of };
}

const brittle = (index, rule = state.rule) =>
  unit.cases.brittle[run.rules.findIndex((r) => r.name === rule)][index] === 1;
const isRight = (index) => unit.cases.true[index] === unit.cases.pred[index];
const inRanking = (index) => unit.cases.member[index] === 1;
const depthOf = (index) => unit.cases.path[index].length - 1;
const hasFlip = (index) => unit.cases.budget[index] <= depthOf(index);
const className = (code) => unit.classes[code] ?? String(code);
const confidence = (index) => unit.cases.conf[index].toFixed(unit.cases.conf[index] > 0.999 ? 5 : 3);

// --- heat map ---

function drawHeat() {
  const map = run.heat[state.measure]?.[state.rule]?.[state.pair];
  const measure = run.measures.find((m) => m.key === state.measure).title;
  const score = pairOf(state.pair).title;
  const table = $("heat");
  $("rule-text").textContent =
    `Brittle under “${state.rule}”: ${run.rules.find((r) => r.name === state.rule).text}.`;
  const reasons = [];
  const body = run.datasets.map((dataset, i) => {
    const cells = run.models.map((model, j) => {
      const [value, defined, total, reason] = map?.cells[i * run.models.length + j] ?? [null, 0, 0, null];
      if (reason !== null) reasons.push(`${dataset.title}, ${model.title}: ${run.reasons[reason]}`);
      const chosen = dataset.name === state.dataset && model.name === state.model;
      const said = value === null
        ? `undefined, ${reason === null ? "no value" : run.reasons[reason]}`
        : `${measure} ${value.toFixed(3)}, ${defined} of ${plural(total, "seed")} defined`;
      const button = element("button", {
        type: "button",
        class: value !== null && value < 0.5 ? "low" : "",
        "data-pair": `${dataset.name}/${model.name}`,
        "aria-pressed": String(chosen),
        "aria-label": `${dataset.title}, ${model.title}: ${said}. Show its cases`,
        title: said,
        onclick: () => choosePair(dataset.name, model.name),
      }, value === null ? NONE : `${value < 0.5 ? "▾ " : ""}${value.toFixed(2)}`);
      if (value !== null && value >= 0.5) {
        const weight = Math.min(1, (value - 0.5) / 0.5);
        button.style.backgroundColor = `color-mix(in srgb, #8dbfe2 ${Math.round(100 * weight)}%, #fff)`;
      }
      if (value !== null && defined < total) button.append(element("small", {}, `${defined}/${total}`));
      return element("td", {}, button);
    });
    return row(side(dataset.title), ...cells, element("td", { class: "mean" }, number(map?.rows[i] ?? null, 2)));
  });
  $("heat-caption").textContent =
    `${measure} of “${score}”, mean over seeds. Mean over data sets: ${number(map?.all ?? null)}.`;
  table.replaceChildren(
    element("thead", {}, row(element("td"), ...run.models.map((m) => head(m.title)), head("mean"))),
    element("tbody", {}, ...body),
  );
  const list = $("undefined");
  list.hidden = reasons.length === 0;
  list.querySelector("summary").textContent = `Why units are undefined (${plural(reasons.length, "cell")})`;
  list.querySelector("ul").replaceChildren(...reasons.map((text) => element("li", {}, text)));
}

async function choosePair(dataset, model) {
  state.dataset = dataset;
  state.model = model;
  settle(["dataset", "model"]);
  await showUnit();
  $("cases").scrollIntoView();
  $("cases").focus({ preventScroll: true });
}

// --- charts ---

function layout(x, y, extra = {}) {
  const axis = { gridcolor: "#e2e2e2", zerolinecolor: "#767676", linecolor: "#767676", showline: true,
    automargin: true, fixedrange: true };
  const { xaxis, yaxis, ...rest } = extra;
  return {
    font: { family: "system-ui, sans-serif", size: 13, color: "#1b1b1b" },
    margin: { l: 48, r: 16, t: 12, b: 44 },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    dragmode: false, hovermode: "closest",
    xaxis: { ...axis, title: { text: x, standoff: 6 }, ...xaxis },
    yaxis: { ...axis, title: { text: y, standoff: 6 }, ...yaxis },
    ...rest,
  };
}

function plot(id, traces, frame, words) {
  $(id).setAttribute("aria-label", words);
  // the library notices a new height by itself only when the window changes
  return Plotly.react($(id), traces, { ...frame, height: $(id).clientHeight }, { displayModeBar: false, responsive: true });
}

function drawCapture() {
  const own = state.scope === "unit" ? unit.capture[state.rule] : run.capture[state.rule];
  const where = state.scope === "unit" ? unitTitle() : "mean over units, then data sets";
  const every = $("capture-every").checked;
  const pairs = run.pairs.filter((p) => every || p.key === state.pair || (p.sign === "risk" && SHOWN.includes(p.score)));
  const curves = typeof own === "string" ? [] : pairs.filter((p) => own[p.key]?.some((v) => v !== null));
  const x = run.budgets.map((b) => 100 * b);
  const traces = curves.map((p) => {
    const k = run.pairs.indexOf(p);
    const bold = p.key === state.pair;
    return {
      x, y: own[p.key].map((v) => (v === null ? null : 100 * v)), name: p.title, mode: "lines+markers",
      line: { width: bold ? 4 : 1.4, color: COLOURS[k % COLOURS.length], dash: DASHES[k % DASHES.length] },
      marker: { symbol: MARKERS[k % MARKERS.length], size: bold ? 10 : 7, maxdisplayed: 11, opacity: 1 },
      hovertemplate: `${p.title}<br>%{y:.0f} % found in %{x:.1f} % reviewed<extra></extra>`,
    };
  });
  let ceiling = typeof own === "string" ? null : own.ceiling;
  if (state.scope === "unit" && traces.length) {
    const rate = unit.brittle[state.rule] / unit.population;
    ceiling = run.budgets.map((b) => Math.min(1, b / rate));
  }
  if (ceiling) {
    traces.push({ x, y: ceiling.map((v) => (v === null ? null : 100 * v)), name: "perfect ranking", mode: "lines",
      line: { width: 1, color: "#000", dash: "2px,4px" }, hoverinfo: "skip" });
  }
  traces.push({ x: [0, 100], y: [0, 100], name: "random order", mode: "lines",
    line: { width: 1, color: "#767676" }, hoverinfo: "skip" });
  const narrow = window.innerWidth < 640;
  const rows = Math.ceil(traces.length / (narrow ? 1 : 4));
  $("capture").style.height = `${20 + rows * (narrow ? 1.45 : 1.3)}rem`;
  const at10 = run.budgets.findIndex((b) => Math.abs(b - 0.1) < 1e-9);
  const words = traces.length <= 1 || !curves.length
    ? `Undefined for ${where}: ${typeof own === "string" ? own : "no unit has a value"}.`
    : `Label rule “${state.rule}”, ${where}`
      + (state.scope === "unit" ? "" : ` (${run.capture_defined[state.rule].join(" of ")} units are defined)`)
      + (own[state.pair] && at10 >= 0
        ? `. Reviewing 10 % of the cases by “${pairOf(state.pair).title}” finds ${percent(own[state.pair][at10])} of the brittle ones.` : ".");
  $("capture-caption").textContent = words;
  $("capture").hidden = !curves.length;
  if (curves.length) plot("capture", traces, layout("cases reviewed, %", "brittle cases found, %", {
    xaxis: { range: [0, 101], dtick: 20 }, yaxis: { range: [0, 104] },
    legend: { orientation: "h", x: 0, y: -0.2, yanchor: "top", font: { size: 12 } },
  }), words);
  const budgets = [0.05, 0.1, 0.2, 0.5].map((q) => [q, run.budgets.findIndex((b) => Math.abs(b - q) < 1e-9)])
    .filter(([, k]) => k >= 0);
  $("capture-table").replaceChildren(
    element("thead", {}, row(head("score", "left"), ...budgets.map(([q]) => head(`${100 * q} % reviewed`)))),
    element("tbody", {}, ...curves.map((p) => row(side(p.title), ...budgets.map(([, k]) => cell(percent(own[p.key][k])))))),
  );
}

function drawCollapse(index) {
  const path = unit.cases.path[index];
  const labels = unit.cases.labels[index];
  const order = unit.cases.order[index];
  const kept = labels.map((label) => label === unit.cases.pred[index]);
  const names = path.map((_, k) => (k ? `${unit.groups[order[k - 1]]} removed` : "nothing removed"));
  const budget = unit.cases.budget[index];
  const words = `Margin ${number(path[0], 2)} with nothing removed; `
    + path.slice(1).map((m, k) => `${number(m, 2)} without ${unit.groups[order[k]]}`).join(", ")
    + `. ${hasFlip(index) ? `The label flips at k = ${budget}.` : "The label does not flip."}`;
  const shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { color: "#000", width: 1.5, dash: "dash" } }];
  const notes = [];
  if (hasFlip(index)) {
    shapes.push({ type: "line", x0: budget, x1: budget, yref: "paper", y0: 0, y1: 1, line: { color: "#767676", width: 1, dash: "dot" } });
    notes.push({ x: budget, y: 1, yref: "paper", text: `k* = ${budget}`, showarrow: false, xanchor: "left", yanchor: "top", xshift: 4, font: { size: 13 } });
  }
  return plot("collapse", [{
    x: path.map((_, k) => k), y: path, mode: "lines+markers", text: names.map((n, k) => `${n}<br>class ${className(labels[k])}`),
    line: { color: "#0072b2", width: 2 },
    marker: { opacity: 1, symbol: kept.map((k) => (k ? "circle" : "x")), size: kept.map((k) => (k ? 9 : 10)),
      color: kept.map((k) => (k ? "#0072b2" : "#d55e00")) },
    hovertemplate: "%{text}<br>margin %{y:.3g}<extra></extra>", showlegend: false,
  }], layout("groups removed, k", "margin of the predicted class", {
    shapes, annotations: notes, xaxis: { dtick: 1, range: [-0.3, path.length - 0.7], zeroline: false },
  }), words);
}

function drawStress(index) {
  const flips = unit.cases.flips[index];
  $("stress-part").hidden = flips === null;
  $("stress-none").hidden = flips !== null;
  if (flips === null) {
    $("stress-none").textContent =
      `Not stressed: the confidence ${confidence(index)} is below ${run.threshold}.`;
    return;
  }
  const kappa = unit.cases.kappa[index];
  const share = flips.map((count, k) => count / unit.draws[k]);
  const operators = [...new Set(unit.cells.map(([operator]) => operator))];
  const traces = (values, format) => operators.map((operator, k) => {
    const at = unit.cells.flatMap(([name], i) => (name === operator ? [i] : []));
    return {
      x: at.map((i) => unit.cells[i][1]), y: at.map((i) => values[i]), name: operator, mode: "lines+markers",
      line: { color: COLOURS[k % COLOURS.length], dash: DASHES[k % DASHES.length], width: 2 },
      marker: { symbol: MARKERS[k % MARKERS.length], size: 9, opacity: 1 },
      hovertemplate: `${operator} %{x}: %{y:${format}}<extra></extra>`,
    };
  });
  const said = (values, form) => unit.cells.map(([operator, severity], k) => `${operator} ${severity}: ${form(values[k])}`).join(", ");
  const legend = { legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" } };
  plot("flips", traces(share, ".0%"), layout("severity", "flips", {
    yaxis: { range: [-0.04, 1.04], tickformat: ".0%" }, xaxis: { rangemode: "tozero" }, ...legend,
  }), `Share of draws that flip the label. ${said(share, (v) => percent(v))}`);
  plot("kappa", traces(kappa, ".2f"), layout("severity", "mean κ", {
    yaxis: { rangemode: "tozero" }, xaxis: { rangemode: "tozero" }, ...legend,
  }), `Mean share of the margin lost. ${said(kappa, (v) => number(v, 2))}`);
  $("stress").replaceChildren(
    element("thead", {}, row(head("operator", "left"), head("severity"), head("flips"), head("share"), head("mean κ"))),
    element("tbody", {}, ...unit.cells.map(([operator, severity], k) => row(
      side(operator), cell(severity), cell(`${flips[k]}/${unit.draws[k]}`), cell(percent(share[k])), cell(number(kappa[k], 2)),
    ))),
  );
}

// --- list of cases ---

const COLUMNS = [
  { key: "id", title: "Case", left: true, value: (i) => unit.cases.id[i] },
  { key: "rank", title: "Rank", value: (i) => scoreOf(i).rank, text: (i) => scoreOf(i).rank ?? NONE },
  { key: "budget", title: "k*", value: (i) => unit.cases.budget[i], text: (i) => (hasFlip(i) ? unit.cases.budget[i] : "none") },
  { key: "brittle", title: "Brittle", left: true, down: true, value: (i) => Number(brittle(i)), text: (i) => (!inRanking(i) ? NONE : brittle(i) ? "● yes" : "no") },
  { key: "conf", title: "p̂", down: true, value: (i) => unit.cases.conf[i], text: confidence },
  { key: "score", title: "Score", down: true, value: (i) => scoreOf(i).value, text: (i) => number(scoreOf(i).value) },
  { key: "pred", title: "Predicted", left: true, value: (i) => unit.cases.pred[i], text: (i) => className(unit.cases.pred[i]) },
  { key: "right", title: "Right?", kind: "wide", left: true, down: true, value: (i) => Number(isRight(i)), text: (i) => (isRight(i) ? "yes" : "✕ no") },
  { key: "why", title: "Taken as", kind: "wide", left: true, value: (i) => unit.cases.why[i],
    text: (i) => ["", "fragile", "uniform", "both"][unit.cases.why[i]] },
];

function passes(index) {
  const wanted = { why: Number($("f-why").value), pred: $("f-pred").value, right: $("f-right").value,
    brittle: $("f-brittle").value, budget: $("f-budget").value, id: $("f-id").value.trim() };
  if (wanted.why && !(unit.cases.why[index] & wanted.why)) return false;
  if (wanted.pred !== "" && unit.cases.pred[index] !== Number(wanted.pred)) return false;
  if (wanted.right !== "" && isRight(index) !== (wanted.right === "1")) return false;
  if (wanted.brittle !== "" && (!inRanking(index) || brittle(index) !== (wanted.brittle === "1"))) return false;
  if (wanted.budget === "none" && hasFlip(index)) return false;
  if (wanted.budget.startsWith("=") && unit.cases.budget[index] !== Number(wanted.budget.slice(1))) return false;
  if (wanted.budget.startsWith("<") && !(hasFlip(index) && unit.cases.budget[index] <= Number(wanted.budget.slice(1)))) return false;
  if (unit.cases.conf[index] < Number($("f-conf").value)) return false;
  const low = $("f-low").value;
  const value = scoreOf(index).value;
  if (low !== "" && (value === null || value < Number(low))) return false;
  return wanted.id === "" || String(unit.cases.id[index]).includes(wanted.id);
}

const list = makeList($("list"), {
  columns: COLUMNS, sort: "rank", label: (text) => `Case ${text}`, tie: (a, b) => unit.cases.id[a] - unit.cases.id[b],
  open: showCase, previous: $("previous"), next: $("next"),
});

function drawList() {
  const shown = list.draw(unit.cases.id.map((_, i) => i).filter(passes));
  const left = unit.cases.id.length - shown.length;
  $("count").textContent = `${plural(shown.length, "case")} shown`
    + (left ? `, ${left} hidden by the choices above` : "")
    + `; “Score” is ${pairOf(state.pair).title}, “Rank” is among ${plural(unit.population, "case")} with confidence from ${run.tau_p}.`;
}

// --- one case ---

function showCase(index) {
  const cases = unit.cases;
  state.id = cases.id[index];
  history.replaceState(null, "", `#${unitKey()}/${state.id}`);
  const order = cases.order[index];
  const budget = cases.budget[index];
  const rules = run.rules.filter((r) => brittle(index, r.name)).map((r) => r.name);
  $("case-title").textContent = `Case ${state.id}: ${unitTitle()}`;
  const flip = hasFlip(index)
    ? `Without ${plural(budget, "group")} (${order.slice(0, budget).map((g) => unit.groups[g]).join(", ")}) it becomes “${className(cases.labels[index][budget])}”: k* = ${budget}.`
    : `Removing ${plural(depthOf(index), "group")} in this order does not flip it.`;
  $("case-summary").textContent =
    `Predicted “${className(cases.pred[index])}” with confidence ${confidence(index)}, which is ${isRight(index) ? "right" : `wrong (true: “${className(cases.true[index])}”)`}. `
    + `${flip} RCMA ${number(cases.rcma[index], 2)}, u ${number(cases.u[index], 2)}, FDS ${number(cases.fds[index], 2)}. `
    + (inRanking(index) ? (rules.length ? `Brittle under: ${rules.join(", ")}.` : "Brittle under no label rule.")
      : `Not ranked, and never called brittle: confidence below ${run.tau_p}.`)
    + (cases.saturated[index] ? " A probability is at the clip, so the margin is a lower bound." : "");
  drawCollapse(index);
  drawGroups(index);
  drawLambda(index);
  drawStress(index);
  drawRanks(index);
}

function drawGroups(index) {
  const { order: orders, delta: deltas, path: paths, labels } = unit.cases;
  const largest = Math.max(...deltas[index].map(Math.abs), 1e-9);
  $("groups").replaceChildren(
    element("thead", {}, row(head("k"), head("group", "left"), head("δ"), head("", "wide left"), head("margin after"), head("class after", "left"))),
    element("tbody", {}, ...orders[index].map((group, position) => {
      const value = deltas[index][group];
      const bar = element("span", { class: value < 0 ? "delta negative" : "delta", "aria-hidden": "true" });
      bar.style.width = `${(4 * Math.abs(value ?? 0)) / largest}rem`;
      const k = position + 1;
      const after = k < paths[index].length;
      const flipped = after && labels[index][k] !== unit.cases.pred[index];
      return row(cell(k), side(breakable(unit.groups[group])), cell(number(value, 2)), element("td", { class: "wide left" }, bar),
        cell(after ? number(paths[index][k], 2) : NONE),
        cell(after ? `${flipped ? "✕ " : ""}${className(labels[index][k])}` : NONE, flipped ? "left flag" : "left"));
    })),
  );
}

function drawLambda(index) {
  const titles = { top1: "the first group", top3: "the first three groups", all: "all groups", prefix: "a growing prefix", sign_noise: "random signs" };
  const grid = run.protocol.severities;
  $("lambda").replaceChildren(
    element("thead", {}, row(head("faded", "left"), head("first flip at λ"), ...grid.map((s) => head(s)))),
    element("tbody", {}, ...unit.operators.map((operator, k) => {
      const found = unit.cases.lambda[k][index];
      return row(side(titles[operator] ?? operator), cell(found === null ? "no flip" : found),
        ...grid.map((s) => cell(found === null || s < found ? "kept" : s === found ? "✕ flip" : "·", s === found ? "flag" : "")));
    })),
  );
}

function drawRanks(index) {
  const ranked = inRanking(index);
  $("ranks-hint").textContent = ranked
    ? `Rank 1 is reviewed first, among audited cases of this unit with confidence from ${run.tau_p} that have the score; equal scores share the mean of their ranks.`
    : `Not ranked: rankings are over cases with confidence from ${run.tau_p}.`;
  $("ranks").replaceChildren(
    element("thead", {}, row(head("score", "left"), head("rank"), head("in the first"), head("value"), head("first … last", "wide left"))),
    element("tbody", {}, ...run.pairs.filter((p) => unit.scores.includes(p.score)).map((p) => {
      const { value, rank, of } = scoreOf(index, p.key);
      const share = rank === null ? null : rank / of;
      const mark = element("i");
      if (share !== null) mark.style.left = `${(100 * (rank - 0.5)) / of}%`;
      const track = share === null ? NONE : element("span", { class: "track", "aria-hidden": "true" }, mark);
      return row(side(p.title), cell(rank === null ? NONE : `${rank} of ${of}`), cell(percent(share, 1)), cell(number(value)), element("td", { class: "wide left" }, track));
    })),
  );
}

// --- units and controls ---

async function showUnit(id = null) {
  const key = unitKey();
  const found = await loadUnit();
  if (key !== unitKey()) return; // another unit was chosen meanwhile
  unit = found;
  for (const name of ["dataset", "model", "seed"]) $(name).value = state[name];
  options($("f-pred"), [["", "any"], ...unit.classes.map((c, k) => [k, c])]);
  const deepest = Math.max(0, ...unit.cases.path.map((p) => p.length - 1));
  const steps = Array.from({ length: deepest }, (_, k) => k + 1);
  options($("f-budget"), [["", "any"], ...steps.map((k) => [`=${k}`, k]),
    ...[2, 3, 5].filter((k) => k <= deepest).map((k) => [`<${k}`, `at most ${k}`]),
    [`<${deepest}`, "flips on the path"], ["none", "no flip"]]);
  const counts = run.rules.map((r) => `${unit.brittle[r.name] ?? NONE} ${r.name}`).join(", ");
  $("unit-facts").textContent =
    `${plural(unit.audited, "audited test case")}, ${unit.uniform} of them the uniform sample; ${plural(unit.cases.id.length, "case")} on this page. `
    + `${unit.population} have confidence from ${run.tau_p}; brittle: ${counts}. Whole test split: accuracy ${number(unit.predictive.accuracy)}, AUROC ${number(unit.predictive.auroc)}.`;
  drawHeat();
  drawCapture();
  list.forget();
  drawList();
  const index = id === null ? -1 : unit.cases.id.indexOf(id);
  const first = index >= 0 ? index : list.shown[0] ?? (unit.cases.id.length ? 0 : -1);
  $("case").hidden = first < 0;
  if (first >= 0) list.choose(first);
}

const REDRAW = {
  rule: () => { drawHeat(); drawCapture(); drawList(); },
  pair: () => { drawHeat(); drawCapture(); drawList(); },
  measure: drawHeat,
  scope: drawCapture,
};
const choices = {
  rule: run.rules.map((r) => [r.name, r.name]),
  pair: run.pairs.map((p) => [p.key, p.title]),
  measure: run.measures.map((m) => [m.key, m.title]),
  scope: [["run", "all units"], ["unit", "the unit below"]],
};
for (const select of document.querySelectorAll("[data-bind]")) {
  const name = select.dataset.bind;
  options(select, choices[name]);
  select.value = state[name];
  select.addEventListener("change", () => {
    state[name] = select.value;
    for (const twin of document.querySelectorAll(`[data-bind=${name}]`)) twin.value = select.value;
    REDRAW[name]();
  });
}
options($("dataset"), run.datasets.map((d) => [d.name, d.title]));
options($("model"), run.models.map((m) => [m.name, m.title]));
options($("seed"), run.seeds.map((s) => [s, s]));
for (const name of ["dataset", "model", "seed"]) {
  $(name).addEventListener("change", () => { state[name] = $(name).value; settle([name]); showUnit(); });
}
for (const name of ["why", "pred", "right", "brittle", "budget"]) $(`f-${name}`).addEventListener("change", drawList);
for (const name of ["conf", "id", "low"]) $(`f-${name}`).addEventListener("input", drawList);
$("reset").addEventListener("click", () => {
  for (const name of ["pred", "right", "brittle", "budget", "id", "low"]) $(`f-${name}`).value = "";
  $("f-why").value = "0";
  $("f-conf").value = "0";
  drawList();
});
$("capture-every").addEventListener("change", drawCapture);

async function follow() {
  const [dataset, model, seed, id] = decodeURIComponent(location.hash.slice(1)).split("/");
  const known = run.units.includes(`${dataset}/${model}/${seed}`);
  if (known) Object.assign(state, { dataset, model, seed });
  await showUnit(known && id ? Number(id) : null);
}
window.addEventListener("hashchange", () => { if (location.hash.includes("/")) follow(); });
show();
await follow();
ready();
