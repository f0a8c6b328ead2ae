// The address chooses the view: #/RUN/overview, #/RUN/map, #/RUN/problem/NUMBER/STEP/MEMBER,
// #/RUN/search, #/compare, or the view of a lab.

let data = null;
const VIEWS = { overview: "Overview", map: "Problems", search: "Search" };

function route() {
  const [head, view, number, t, i] = location.hash.replace(/^#\/?/, "").split("/");
  if (data.lab && (head === data.lab.view || !head)) return { view: "lab", run: data.runs[0] };
  if (head === "compare" && data.comparison) return { view: "compare", run: data.runs[0] };
  const run = data.runs[Number(head) || 0] || data.runs[0];
  const problem = run.problems[Number(number)];
  if (view === "problem" && problem) {
    return { run, view, problem, t: t == null ? null : Number(t), i: Number(i) };
  }
  if (view in VIEWS) return { run, view };
  return { run, view: !head && data.comparison ? "compare" : "overview" };
}

function menu(now) {
  const item = (href, name, isCurrent) =>
    h("a", { href, "aria-current": isCurrent ? "page" : null }, name);
  const items = [];
  if (data.lab) items.push(item(`#/${data.lab.view}`, data.lab.heading, now.view === "lab"));
  if (data.comparison) items.push(item("#/compare", "Comparison", now.view === "compare"));
  if (data.runs.length > 1) items.push(runChoice(now));
  for (const [view, name] of Object.entries(VIEWS)) {
    const tab = view === "overview" ? lab.tab?.(now.run) : null;
    const isCurrent = now.view === view || (view === "map" && now.view === "problem");
    items.push(item(`#/${now.run.number}/${view}`, tab || name, isCurrent));
  }
  byId("nav").replaceChildren(...items);
}

/** The choice of a result. It opens the same view of the other result. */
function runChoice(now) {
  const view = now.view in VIEWS ? now.view : "overview";
  const open = (event) => (location.hash = `#/${event.target.value}/${view}`);
  const options = data.runs.map((run) =>
    h("option", { value: run.number, selected: run === now.run }, run.name),
  );
  return h("select", { "aria-label": "result", onchange: open }, options);
}

let shown = ""; // the page that is shown
function show() {
  const now = route();
  menu(now);
  const frame = document.querySelector(".lineage-frame");
  const position = [frame?.scrollLeft, frame?.scrollTop];
  const focused = document.activeElement;
  const wasInside = byId("main").contains(focused);
  byId("main").replaceChildren(...[viewOf(now)].flat(Infinity).filter(Boolean));
  const page = `${now.run.number}/${now.view}/${now.problem?.number}`;
  if (page === shown && now.view === "problem") {
    stay(now, position, focused, wasInside);
  } else if (shown && page !== shown) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  showChosen();
  shown = page;
  document.title = titleOf(now);
}

function viewOf({ view, run, problem, t, i }) {
  switch (view) {
    case "lab":
      return lab.view(data);
    case "overview":
      return lab.overview?.(run) || overview(run);
    case "map":
      return problemsMap(run);
    case "search":
      return searchView(run);
    case "compare":
      return comparing(data);
    default:
      return reading(run, problem, t, i);
  }
}

/** Another member of the same problem is shown: stay where the reader was. */
function stay(now, position, focused, wasInside) {
  const frame = document.querySelector(".lineage-frame");
  if (frame) [frame.scrollLeft, frame.scrollTop] = position;
  const wasOnNode = focused?.dataset.id;
  const next = wasOnNode ? `[data-id="${now.t},${now.i}"]` : ".member";
  if (wasInside) document.querySelector(next)?.focus({ preventScroll: true });
  if (wasOnNode) document.querySelector(".member h3")?.scrollIntoView({ block: "nearest" });
}

function titleOf({ view, run, problem }) {
  const parts = [];
  if (problem) parts.push(problem.id);
  if (view === "compare") parts.push(data.table?.name ?? "comparison");
  else if (view !== "lab") parts.push(run.name);
  if (data.lab) parts.push(data.lab.name);
  return [...parts, "qed-rsa"].filter(Boolean).join(" · ");
}

function onKey(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !data) return;
  const now = route();
  const action = now.problem ? problemKeys(now)[event.key] : null;
  if (action) {
    event.preventDefault();
    action();
  } else if (event.key === "/") {
    event.preventDefault();
    location.hash = `#/${now.run.number}/search`;
  }
}

/** The actions of keys while a problem is open. */
function problemKeys({ run, problem, t, i }) {
  const open = (by) => {
    const next = run.problems[problem.number + by];
    if (next) location.hash = link(run, next);
  };
  const close = () => (location.hash = t == null ? `#/${run.number}/map` : link(run, problem));
  return {
    j: () => stepMember(run, problem, t, i, 1),
    k: () => stepMember(run, problem, t, i, -1),
    n: () => open(1),
    p: () => open(-1),
    Escape: close,
  };
}

function prepare(newest) {
  newest.runs.forEach((run, number) => {
    run.number = number;
    const areScores = hasScores(run);
    run.problems.forEach((problem, n) => {
      problem.number = n;
      for (const step of problem.steps) step.hasScores = areScores;
    });
  });
  return newest;
}

/** During a run: ask for newer results, and show them unless the reader would be disturbed. */
async function live(every) {
  let tag = null;
  for (let pause = 0; ; pause = every) {
    await new Promise((resume) => setTimeout(resume, pause * 1000));
    try {
      await showProgress();
      if (pause) tag = await renew(tag); // the page has just been loaded
    } catch (error) {
      const isGone = error instanceof TypeError;
      const words = isGone
        ? "The live server does not answer any more."
        : `No newer results: ${error.message}`;
      byId("pulse").textContent = words;
      if (isGone) byId("progress").replaceChildren();
      byId("status").textContent = words;
    }
  }
}

/** Show the state of each run, in a line. */
async function showProgress() {
  const states = await (await fetch("progress")).json();
  const lines = states.map(({ name, text }) =>
    h("p", {}, name && h("strong", {}, `${cut(name, 80)}: `), text),
  );
  byId("progress").replaceChildren(...lines);
}

/** Ask for results that are newer than those with this tag. Return their tag. */
async function renew(tag) {
  const answer = await fetch("data", tag ? { headers: { "If-None-Match": tag } } : {});
  if (![200, 304].includes(answer.status)) throw new Error((await answer.text()).trim());
  const ends = data.runs.map((run) => run.head.ended).sort();
  byId("pulse").textContent = `live · results of ${ends.at(-1)}`;
  if (answer.status === 304) return tag;
  const before = JSON.stringify(route().problem);
  data = prepare(await answer.json());
  document.querySelector("h1").textContent = data.name;
  parts.clear();
  const { problem } = route();
  const isUnchanged = problem && JSON.stringify(problem) === before;
  const isReading =
    document.querySelector(".member details[open]") ||
    document.activeElement?.matches("input, select");
  if (!isReading && !isUnchanged) show();
  return answer.headers.get("ETag");
}

function begin(results) {
  data = prepare(results);
  show();
  addEventListener("hashchange", show);
  addEventListener("keydown", onKey);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // "#main" is no view
    byId("main").focus();
  });
  // pictures carry their colours
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  if (document.body.dataset.live) live(Number(document.body.dataset.live));
}

function fail(error) {
  const advice = "Use a browser of 2023 or later.";
  const words = `This page can't be shown in full: ${error.message}. ${advice}`;
  byId("main").prepend(h("p", { class: "warning" }, words));
}

unpacked(byId("data").textContent).then(begin).catch(fail);
