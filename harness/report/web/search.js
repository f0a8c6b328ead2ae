// Text search through the answers and thinking of all members, without forced answers, prompts and side calls.

const MOST_HITS = 200;
let searching = 0; // number of the newest search. Older ones give up

async function find(run, words, kinds, onHit, onProgress) {
  const mine = ++searching;
  const wanted = words.toLowerCase();
  let hits = 0,
    missing = 0; // found members, and texts that could not be loaded
  const load = (problem, tier) =>
    texts(run.number, problem.number, tier).catch(() => {
      missing++;
      return null;
    });
  for (const problem of run.problems) {
    onProgress(problem.number);
    const tiers = await Promise.all(["a", "b"].map((tier) => load(problem, tier)));
    for (const [t, step] of problem.steps.entries())
      for (const [i, one] of step.members.entries()) {
        if (!FILTERS[kinds](one)) continue;
        for (const [where, text] of [
          ["answer", tiers[0]?.[`${t},${i}`]?.answer],
          ["thinking", tiers[1]?.[`${t},${i}`]?.thinking],
        ]) {
          const at = text ? text.toLowerCase().indexOf(wanted) : -1;
          if (at < 0) continue;
          onHit(
            problem,
            t,
            i,
            where,
            text.slice(Math.max(0, at - 60), at),
            text.slice(at, at + wanted.length),
            text.slice(at + wanted.length, at + wanted.length + 60),
          );
          if (++hits >= MOST_HITS)
            return onProgress(run.problems.length, `the first ${MOST_HITS} members are shown`);
          break;
        }
      }
    await new Promise((resume) => setTimeout(resume)); // let the page breathe
    if (mine !== searching) return;
  }
  const unread = missing ? `. ${plural(missing, "text file")} could not be loaded` : "";
  onProgress(run.problems.length, (hits ? plural(hits, "member") : "nothing found") + unread);
}

const searches = new Map(); // run number -> its search, kept for the way back from a hit

function searchView(run) {
  if (!searches.has(run.number)) searches.set(run.number, newSearch(run.number));
  setTimeout(() => byId("search")?.focus());
  return searches.get(run.number);
}

function newSearch(number) {
  const hits = h("ol", { class: "hits" }),
    progress = h("p", { class: "quiet", role: "status" });
  const box = h("input", {
    type: "search",
    id: "search",
    placeholder: "text in answers and thinking",
    "aria-label": "text to look for",
  });
  const kinds = h(
    "select",
    { "aria-label": "members" },
    Object.keys(FILTERS).map((name) => h("option", {}, name)),
  );
  const form = h(
    "form",
    {
      class: "bar",
      role: "search",
      onsubmit: (event) => {
        event.preventDefault();
        hits.replaceChildren();
        if (!box.value) return;
        const run = data.runs[number]; // the newest data of a live run
        find(
          run,
          box.value,
          kinds.value,
          (problem, t, i, where, before, match, after) =>
            hits.append(
              h(
                "li",
                {},
                h(
                  "a",
                  { href: link(run, problem, t, i) },
                  `${problem.id} t=${problem.steps[t].step} member ${i}`,
                ),
                ` ${where}: …${before}`,
                h("mark", {}, match),
                after + "…",
              ),
            ),
          (done, words) =>
            (progress.textContent =
              words || `looked through ${done} of ${plural(run.problems.length, "problem")} …`),
        );
      },
    },
    box,
    kinds,
    h("button", { type: "submit" }, "Search"),
  );
  return [h("h2", {}, "Search"), form, progress, hits];
}
