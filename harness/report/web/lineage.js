// The lineage of a problem's members: a column for each step, a node for each member, an edge from each parent to its child.

const ROW = 30,
  HEAD = 44,
  PAD = 22,
  WIDTH = 1150;
const lineageState = { byAnswer: false };

/** The ancestors of `id` (up) or its descendants (down): a Set of "t,i". */
function relatives(problem, id, down) {
  const found = new Set([id]);
  const [t0] = id.split(",").map(Number);
  for (let t = down ? t0 + 1 : t0; down ? t < problem.steps.length : t > 0; t += down ? 1 : -1) {
    problem.steps[t].members.forEach((member, i) => {
      for (const j of member.parents) {
        const [parent, child] = [`${t - 1},${j}`, `${t},${i}`];
        if (down && found.has(parent)) found.add(child);
        if (!down && found.has(child)) found.add(parent);
      }
    });
  }
  return found;
}

/** Scroll the picture, not the page, to the open member. */
function showChosen() {
  const frame = document.querySelector(".lineage-frame"),
    ring = frame?.querySelector(".chosen");
  if (!ring) return;
  const [outer, inner] = [frame, ring].map((element) => element.getBoundingClientRect());
  if (inner.left < outer.left || inner.right > outer.right)
    frame.scrollLeft += inner.left - outer.left - outer.width / 2;
  if (inner.top < outer.top || inner.bottom > outer.bottom)
    frame.scrollTop += inner.top - outer.top - outer.height / 2;
}

/** The answer of a member in short. */
const brief = (member) =>
  member.error
    ? "failed"
    : isProof(member)
      ? pointsOf(member)
      : (member.answer ?? (member.correct == null ? "proof" : "no answer"));
/** An answer's LaTeX as short plain text, for a label. */
const plainly = (tex) =>
  tex
    .replace(/\\[dt]?frac\{(\w+)\}\{(\w+)\}/g, "$1/$2")
    .replace(/\\sqrt\{(\w+)\}/g, "√$1")
    .replace(/\\pi(?![a-z])/g, "π")
    .replace(/\\(?:left|right|[,;! ])/g, "");

/** The members of a step in the order of the picture. */
function drawnOrder(step) {
  const order = step.members.map((_, i) => i);
  if (!lineageState.byAnswer) return order;
  // Proofs are ordered by points. Otherwise groups of equal answers follow each other, first those with right members.
  if (hasPoints(step))
    return order.sort(
      (a, b) => (step.members[b].worth ?? -1) - (step.members[a].worth ?? -1) || a - b,
    );
  const right = new Set(step.members.filter((m) => m.correct).map((m) => m.group));
  const rank = (m) => (m.group == null ? 2e6 : (right.has(m.group) ? 0 : 1e6) + m.group);
  return order.sort((a, b) => rank(step.members[a]) - rank(step.members[b]) || a - b);
}

/** The mark of a node: a circle for right, a square for wrong, an empty diamond without an answer or grade. Proofs have
    the colour of their points. */
function mark(member, x, y) {
  const right = color("right"),
    wrong = color("wrong"),
    ink = color("quiet");
  if (member.worth != null)
    return fill(
      (isRightOne(member) ? SHAPES.circle : SHAPES.square)(x, y, 8),
      { fill: shade(member.worth) },
      [],
    );
  if (member.correct) return fill(SHAPES.circle(x, y, 8), { fill: right }, []);
  if (member.answer == null || member.correct == null)
    return fill(
      SHAPES.diamond(x, y, 7),
      { fill: color("surface"), stroke: ink, "stroke-width": 1.5 },
      [],
    );
  return fill(SHAPES.square(x, y, 8), { fill: wrong }, []);
}

/**
 * The picture. `chosen` is the open member, "t,i". `dims(member, t, i)` is true for members that do not pass the filter. `open(t, i)` opens a member.
 */
function lineage(problem, chosen, dims, open) {
  const most = Math.max(...problem.steps.map((step) => step.members.length));
  const rowHeight = most > 16 ? 22 : ROW;
  const COLUMN = Math.min(190, Math.max(132, (WIDTH - 2 * PAD) / problem.steps.length)); // few columns fill the width
  const width = PAD * 2 + COLUMN * problem.steps.length,
    height = HEAD + most * rowHeight + 10;
  const places = problem.steps.map((step) => {
    const at = [];
    drawnOrder(step).forEach((i, row) => (at[i] = row));
    return at;
  });
  const X = (t) => PAD + t * COLUMN + 8,
    Y = (t, i) => HEAD + (places[t][i] + 0.5) * rowHeight;
  const size = most > 16 ? 11 : 12.5;
  const fitting = Math.max(9, Math.floor((COLUMN - 84) / (0.62 * size)));
  const label = (member) => cut(plainly(brief(member)), fitting);
  // An edge begins after the label, or its first piece would look like a minus sign.
  const labelEnd = (member) =>
    18 + 0.62 * size * ([...label(member)].length + (member.doubt ? 1.5 : 0));
  const ink = color("ink"),
    quiet = color("quiet");
  const halo = {
    "paint-order": "stroke",
    stroke: color("surface"),
    "stroke-width": 4,
    "stroke-linejoin": "round",
  }; // over edges
  const picture = s("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: "lineage",
    role: "group",
    "aria-label": `Lineage of problem ${problem.id}`,
    "font-family": "system-ui, sans-serif",
  });
  const edges = s("g", { fill: "none", class: "edges" }),
    nodes = s("g", {});
  problem.steps.forEach((step, t) => {
    picture.append(
      s(
        "text",
        { x: X(t) - 8, y: 16, fill: ink, "font-size": 13, "font-weight": 600 },
        cut(stepName(step), 18),
      ),
      s(
        "text",
        { x: X(t) - 8, y: 33, fill: quiet, "font-size": 12 },
        isUngraded(step)
          ? NOT_GRADED
          : hasPoints(step)
            ? `${shareOf(step)} of ${data.most} points`
            : `${step.members.filter((m) => m.correct).length}/${step.members.length} right ${voteMark(step)}`,
      ),
    );
    step.members.forEach((member, i) => {
      const x = X(t),
        y = Y(t, i),
        id = `${t},${i}`;
      for (const j of member.parents) {
        const parent = problem.steps[t - 1]?.members[j];
        if (!parent) continue;
        const x0 = X(t - 1) + labelEnd(parent),
          x1 = x - 10,
          y0 = Y(t - 1, j),
          bend = (x1 - x0) * 0.5;
        edges.append(
          s("path", {
            d: `M${x0},${y0}C${x0 + bend},${y0} ${x1 - bend},${y} ${x1},${y}`,
            "data-from": `${t - 1},${j}`,
            "data-to": id,
            stroke:
              parent.worth != null
                ? shade(parent.worth)
                : isRightOne(parent) == null
                  ? quiet
                  : isRightOne(parent)
                    ? color("right")
                    : color("wrong"),
            "stroke-opacity": 0.28,
            "stroke-width": 1.3,
            "stroke-dasharray": isRightOne(parent) === false ? "5 3" : null,
          }),
        );
      }
      const words = `${stepName(step)}, member ${i}: ${brief(member)}, ${judged(member)}${
        member.doubt ? `, doubt: ${member.doubt}` : ""
      }${member.parents.length ? `, from ${member.parents.join(", ")}` : ""}`;
      const node = s(
        "g",
        {
          tabindex: chosen === id ? 0 : -1,
          role: "button",
          "aria-label": words,
          "data-id": id,
          class: "node",
          opacity: dims(member, t, i) ? 0.2 : null,
          "aria-pressed": chosen === id ? "true" : "false",
          onclick: () => open(t, i),
          onfocus: () => light(id),
          onblur: () => light(chosen),
          onmouseenter: () => light(id),
          onmouseleave: () => light(chosen),
          onkeydown: (event) => walk(event, t, i),
        },
        s("title", {}, words),
        s("rect", {
          x: x - 12,
          y: y - rowHeight / 2,
          width: COLUMN - 24,
          height: rowHeight,
          fill: "transparent",
        }),
        chosen === id &&
          s("circle", {
            cx: x,
            cy: y,
            r: 12,
            fill: "none",
            stroke: ink,
            "stroke-width": 2,
            class: "chosen",
          }),
        mark(member, x, y),
        s(
          "text",
          { x: x + 14, y: y + 4, fill: ink, "font-size": size, ...halo },
          label(member),
          member.doubt && s("tspan", { fill: color("wrong") }, " ?"),
        ),
      );
      nodes.append(node);
    });
  });
  picture.append(edges, nodes);

  /** Light up the ancestors and descendants of a member. Without one, all look alike. */
  function light(id) {
    const family =
      id && new Set([...relatives(problem, id, false), ...relatives(problem, id, true)]);
    const up = id && relatives(problem, id, false),
      down = id && relatives(problem, id, true);
    for (const edge of edges.children) {
      const { from, to } = edge.dataset;
      const is = family && ((up.has(from) && up.has(to)) || (down.has(from) && down.has(to)));
      edge.setAttribute("stroke-opacity", is ? 0.95 : family ? 0.07 : 0.28);
      edge.setAttribute("stroke-width", is ? 2 : 1.3);
    }
    for (const node of nodes.children)
      node.classList.toggle("far", Boolean(family) && !family.has(node.dataset.id));
  }

  function walk(event, t, i) {
    const go = (toT, toRow) => {
      const step = problem.steps[toT];
      if (!step) return;
      const row = Math.min(step.members.length - 1, Math.max(0, toRow));
      const next = places[toT].indexOf(row);
      nodes.querySelector(`[data-id="${toT},${next}"]`).focus();
      event.preventDefault();
    };
    const keys = {
      ArrowUp: [t, places[t][i] - 1],
      ArrowDown: [t, places[t][i] + 1],
      ArrowLeft: [t - 1, places[t][i]],
      ArrowRight: [t + 1, places[t][i]],
    };
    if (keys[event.key]) go(...keys[event.key]);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(t, i);
    }
  }

  if (!chosen) nodes.firstElementChild?.setAttribute("tabindex", 0);
  light(chosen);
  return picture;
}
