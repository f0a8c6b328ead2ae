// The address chooses the view: #/RUN/overview, #/RUN/map, #/RUN/problem/NUMBER/STEP/MEMBER, #/RUN/search, #/compare, or the view of a lab.

let data = null;
const VIEWS = { overview: "Overview", map: "Problems", search: "Search" };

function route() {
  const [head, view, number, t, i] = location.hash.replace(/^#\/?/, "").split("/");
  if (data.lab && (head === data.lab.view || !head)) return { view: "lab", run: data.runs[0] };
  if (head === "compare" && data.comparison) return { view: "compare", run: data.runs[0] };
  const run = data.runs[Number(head) || 0] || data.runs[0];
  if (view === "problem" && run.problems[Number(number)]) {
    return {
      run,
      view,
      problem: run.problems[Number(number)],
      t: t == null ? null : Number(t),
      i: Number(i),
    };
  }
  return { run, view: view in VIEWS ? view : !head && data.comparison ? "compare" : "overview" };
}

function menu(now) {
  const item = (href, name, is) => h("a", { href, "aria-current": is ? "page" : null }, name);
  const runs =
    data.runs.length > 1 &&
    h(
      "select",
      {
        "aria-label": "result",
        onchange: (event) =>
          (location.hash = `#/${event.target.value}/${now.view in VIEWS ? now.view : "overview"}`),
      },
      data.runs.map((run) =>
        h("option", { value: run.number, selected: run === now.run }, run.name),
      ),
    );
  byId("nav").replaceChildren(
    ...[
      data.lab && item(`#/${data.lab.view}`, data.lab.heading, now.view === "lab"),
      data.comparison && item("#/compare", "Comparison", now.view === "compare"),
      runs,
      ...Object.entries(VIEWS).map(([view, name]) =>
        item(
          `#/${now.run.number}/${view}`,
          (view === "overview" && lab.tab?.(now.run)) || name,
          now.view === view || (view === "map" && now.view === "problem"),
        ),
      ),
    ].filter(Boolean),
  );
}

let shown = "";
function show() {
  const now = route();
  menu(now);
  const views = {
    lab: () => lab.view(data),
    overview: () => lab.overview?.(now.run) || overview(now.run),
    map: () => problemsMap(now.run),
    search: () => searchView(now.run),
    compare: () => comparing(data),
    problem: () => reading(now.run, now.problem, now.t, now.i),
  };
  const frame = document.querySelector(".lineage-frame"),
    place = [frame?.scrollLeft, frame?.scrollTop];
  const focused = document.activeElement,
    wasInside = byId("main").contains(focused);
  byId("main").replaceChildren(...[views[now.view]()].flat(Infinity).filter(Boolean));
  const page = `${now.run.number}/${now.view}/${now.problem?.number}`;
  if (page === shown && now.view === "problem") {
    // another member of the same problem: stay where the reader was
    const again = document.querySelector(".lineage-frame");
    if (again) [again.scrollLeft, again.scrollTop] = place;
    const next = focused?.dataset.id ? `[data-id="${now.t},${now.i}"]` : ".member"; // the next focus
    if (wasInside) document.querySelector(next)?.focus({ preventScroll: true });
    if (focused?.dataset.id)
      document.querySelector(".member h3")?.scrollIntoView({ block: "nearest" });
  } else if (shown && page !== shown) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  showChosen();
  shown = page;
  document.title =
    (now.problem ? `${now.problem.id} · ` : "") +
    [
      now.view === "lab"
        ? null
        : now.view === "compare"
          ? (data.table?.name ?? "comparison")
          : now.run.name,
      data.lab?.name,
      "qed-rsa",
    ]
      .filter(Boolean)
      .join(" · ");
}

function onKey(event) {
  if (
    event.target.matches("input, select, textarea") ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    !data
  )
    return;
  const now = route();
  const to = (by) => {
    const next = now.run.problems[now.problem.number + by];
    if (next) location.hash = link(now.run, next);
  };
  const keys = { "/": () => (location.hash = `#/${now.run.number}/search`) };
  if (now.problem)
    Object.assign(keys, {
      j: () => stepMember(now.run, now.problem, now.t, now.i, 1),
      k: () => stepMember(now.run, now.problem, now.t, now.i, -1),
      n: () => to(1),
      p: () => to(-1),
      Escape: () =>
        (location.hash = now.t == null ? `#/${now.run.number}/map` : link(now.run, now.problem)),
    });
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
}

function prepare(found) {
  found.runs.forEach((run, number) => {
    run.number = number;
    run.problems.forEach((problem, n) => (problem.number = n));
  });
  return found;
}

/** During a run: ask for newer results, and show them unless the reader would be disturbed. */
async function live(every) {
  let tag = null;
  for (;;) {
    await new Promise((resume) => setTimeout(resume, every * 1000));
    try {
      const answer = await fetch("data", tag ? { headers: { "If-None-Match": tag } } : {});
      if (![200, 304].includes(answer.status)) throw new Error((await answer.text()).trim());
      byId("pulse").textContent = `live · results of ${data.runs
        .map((run) => run.head.ended)
        .sort()
        .at(-1)}`;
      if (answer.status === 304) continue;
      tag = answer.headers.get("ETag");
      const before = JSON.stringify(route().problem);
      data = prepare(await answer.json());
      document.querySelector("h1").textContent = data.name;
      parts.clear();
      const { problem } = route();
      const isReading =
        document.querySelector(".member details[open]") ||
        document.activeElement?.matches("input, select");
      if (!isReading && !(problem && JSON.stringify(problem) === before)) show();
    } catch (error) {
      byId("pulse").textContent = byId("status").textContent =
        error instanceof TypeError
          ? "The live server does not answer any more."
          : `No newer results: ${error.message}`;
    }
  }
}

unpacked(byId("data").textContent)
  .then((found) => {
    data = prepare(found);
    show();
    addEventListener("hashchange", show);
    addEventListener("keydown", onKey);
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      byId("main").focus();
    }); // "#main" is no view
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show); // pictures carry their colours
    if (document.body.dataset.live) live(Number(document.body.dataset.live));
  })
  .catch((error) =>
    byId("main").prepend(
      h(
        "p",
        { class: "warning" },
        `This page can't be shown in full: ${error.message}. Use a browser of 2023 or later.`,
      ),
    ),
  );
