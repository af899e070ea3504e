// The page of an audit: lists and filters its cases and shows the card of one. Cards come finished.

const audit = JSON.parse(await unpack("values"));
const { cases, groups } = audit;
const every = cases.id.map((_, i) => i);
const blocks = new Map();
let chosen = -1;

const className = (i) => audit.classes[cases.pred[i]];
const hasFlip = (i) => cases.budget[i] <= audit.depth;
const flags = (i) => [
  cases.wrong?.[i] ? "wrong" : "", cases.brittle?.[i] ? "brittle" : "", cases.mind[i].length ? "!" : "",
].filter(Boolean);

async function cardOf(i) {
  const number = Math.floor(i / audit.block);
  if (!blocks.has(number)) blocks.set(number, JSON.parse(await unpack(`block-${number}`)));
  return blocks.get(number)[i % audit.block];
}

// --- list ---

const COLUMNS = [
  { key: "index", title: "Case", left: true, value: (i) => cases.index[i] },
  { key: "rank", title: "Rank", value: (i) => cases.rank[i] },
  { key: "pred", title: "Predicted", left: true, value: className },
  { key: "conf", title: "p̂", down: true, value: (i) => cases.conf[i], text: (i) => cases.shownConf[i] },
  { key: "budget", title: "k*", value: (i) => cases.budget[i], text: (i) => (hasFlip(i) ? `✕ ${cases.budget[i]}` : "none") },
  { key: "value", title: audit.score, down: true, value: (i) => cases.value[i], text: (i) => number(cases.value[i], 2) },
  { key: "flags", title: "Flags", kind: "flags", left: true, down: true, value: (i) => flags(i).length, text: (i) => flags(i).join(", ") },
];

const list = makeList($("list"), {
  columns: COLUMNS, sort: "rank", label: (text) => `Case ${text}`, tie: (a, b) => cases.rank[a] - cases.rank[b],
  open: showCase, previous: $("previous"), next: $("next"),
});

// a filter the page has no use for is not on it
const wanted = (name) => $(`f-${name}`)?.value ?? "";

function passes(i) {
  const [alone, mind, brittle, wrong] = ["alone", "mind", "brittle", "wrong"].map(wanted);
  const index = wanted("index").trim().toLowerCase();
  if (index && !String(cases.index[i]).toLowerCase().includes(index)) return false;
  if (wanted("pred") !== "" && cases.pred[i] !== Number(wanted("pred"))) return false;
  if (cases.conf[i] < Number(wanted("conf"))) return false;
  if (alone === "any" ? !cases.alone[i].length : alone !== "" && !cases.alone[i].includes(Number(alone))) return false;
  if (mind === "none" ? cases.mind[i].length : mind === "any" ? !cases.mind[i].length
    : mind !== "" && !cases.mind[i].includes(Number(mind))) return false;
  if (brittle !== "" && cases.brittle[i] !== Number(brittle)) return false;
  if (wrong !== "" && cases.wrong[i] !== Number(wrong)) return false;
  const why = Number(wanted("why"));
  return !why || Boolean(cases.why[i] & why);
}

function drawList() {
  const shown = list.draw(every.filter(passes));
  const left = every.length - shown.length;
  $("count").textContent = `${plural(shown.length, "case")} shown${left ? `, ${left} hidden by the choices above` : ""}.`;
}

function fillFilters() {
  options($("f-pred"), [["", "any"], ...audit.classes.map((name, k) => [k, name])]);
  const losing = groups.map((name, g) => [g, name, every.filter((i) => cases.alone[i].includes(g)).length])
    .filter(([, , count]) => count).sort((a, b) => b[2] - a[2]);
  const any = every.filter((i) => cases.alone[i].length).length;
  options($("f-alone"), [["", "any or none"], ["any", `any one group (${any})`],
    ...losing.map(([g, name, count]) => [g, `${name} (${count})`])]);
  options($("f-mind"), [["", "with or without"], ["none", "without"], ["any", "any"],
    ...audit.kinds.map((title, k) => [k, title])]);
}

// --- one case ---

async function showCase(i) {
  chosen = i;
  const card = await cardOf(i);
  if (chosen !== i) return; // another case was chosen meanwhile
  $("card").innerHTML = card; // made by the library, every name in it escaped
  $("card").dataset.case = cases.id[i];
  $("case").hidden = false;
  $("said").textContent = `Case ${cases.index[i]}. ${[...$("card").querySelectorAll(".cfc-lead")].map((p) => p.textContent).join(" ")}`;
  history.replaceState(null, "", `#${cases.id[i]}`);
}

// where list and card lie above each other, a finger that chose a case wants to see it
$("list").tBodies[0].addEventListener("click", (event) => {
  const isStacked = $("case").offsetTop > $("list").closest(".left").offsetTop + 10;
  if (isStacked && event.target.closest("tr")) $("case").scrollIntoView();
});

for (const name of ["pred", "alone", "mind", "brittle", "wrong", "why"]) $(`f-${name}`)?.addEventListener("change", drawList);
for (const name of ["index", "conf"]) $(`f-${name}`).addEventListener("input", drawList);
$("reset").addEventListener("click", () => {
  for (const name of ["index", "pred", "alone", "mind", "brittle", "wrong"]) if ($(`f-${name}`)) $(`f-${name}`).value = "";
  if ($("f-why")) $("f-why").value = "0";
  $("f-conf").value = "0";
  drawList();
});
for (const button of document.querySelectorAll("[data-group]")) {
  button.addEventListener("click", () => {
    $("f-alone").value = groups.indexOf(button.dataset.group);
    $("f-conf").value = audit.least;
    drawList();
    if (list.shown.length) list.choose(list.shown[0]);
    $("cases").scrollIntoView();
    $("cases").focus({ preventScroll: true });
  });
}

function follow() {
  const i = cases.id.indexOf(Number(location.hash.slice(1) || NaN));
  const first = i >= 0 ? i : list.shown[0];
  $("case").hidden = first === undefined;
  if (first !== undefined) list.choose(first);
}
window.addEventListener("hashchange", () => { if (/^#\d+$/.test(location.hash)) follow(); });

fillFilters();
drawList();
show();
follow();
if (every.length) await cardOf(chosen);
ready();
