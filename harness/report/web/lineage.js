// The lineage of a problem's members: a column for each step, a node for each member, an edge from
// each parent to its child.

const ROW = 30; // height of a row, in pixels
const SMALL_ROW = 22; // with many members
const HEAD = 44;
const PAD = 22;
const WIDTH = 1150;
const MANY = 16; // members of a step
const lineageState = { byAnswer: false };

/** The ancestors of `id` (up) or its descendants (down): a Set of "t,i". */
function relatives(problem, id, down) {
  const family = new Set([id]);
  const [start] = id.split(",").map(Number);
  const numbers = [...problem.steps.keys()];
  const steps = down ? numbers.slice(start + 1) : numbers.slice(1, start + 1).reverse();
  for (const t of steps) {
    for (const [i, member] of problem.steps[t].members.entries()) {
      for (const j of member.parents) {
        const parent = `${t - 1},${j}`;
        const child = `${t},${i}`;
        if (down && family.has(parent)) family.add(child);
        if (!down && family.has(child)) family.add(parent);
      }
    }
  }
  return family;
}

/** Scroll the picture, not the page, to the open member. */
function showChosen() {
  const frame = document.querySelector(".lineage-frame");
  const ring = frame?.querySelector(".chosen");
  if (!ring) return;
  const outer = frame.getBoundingClientRect();
  const inner = ring.getBoundingClientRect();
  if (inner.left < outer.left || inner.right > outer.right) {
    frame.scrollLeft += inner.left - outer.left - outer.width / 2;
  }
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    frame.scrollTop += inner.top - outer.top - outer.height / 2;
  }
}

/** The answer of a member in short. */
function brief(member) {
  if (member.error) return "failed";
  if (isProof(member)) return pointsOf(member);
  return member.answer ?? (member.correct == null ? "proof" : "no answer");
}
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
  const members = step.members;
  // Proofs are ordered by points. Otherwise groups of equal answers follow each other, by their
  // best scores.
  if (hasPoints(step)) {
    const points = (i) => members[i].points_share ?? -1;
    return order.sort((a, b) => points(b) - points(a) || a - b);
  }
  const best = new Map(); // the best score of each group
  for (const member of members) {
    best.set(member.group, Math.max(best.get(member.group) ?? 0, scoreOf(member)));
  }
  const rank = (i) => {
    const group = members[i].group;
    if (group == null) return 2e6;
    return (1 - best.get(group)) * 1e6 + group;
  };
  return order.sort((a, b) => rank(a) - rank(b) || a - b);
}

/** The mark of a partly right member: a circle, half of it filled. */
function partlyMark(x, y) {
  const stroke = { stroke: color("partly"), "stroke-width": 1.8 };
  return s(
    "g",
    {},
    fill(SHAPES.circle(x, y, 7.2), { fill: color("surface"), ...stroke }, []),
    fill(halfCircle(x, y, 7.2), { fill: color("partly") }, []),
  );
}

/**
 * The mark of a node: a circle for right, half a circle for partly right, a square for wrong, an
 * empty diamond without an answer or grade. Proofs have the colour of their points.
 */
function mark(member, x, y) {
  if (member.points_share != null) {
    const shape = isRightOne(member) ? SHAPES.circle : SHAPES.square;
    return fill(shape(x, y, 8), { fill: shade(member.points_share) }, []);
  }
  if (isPartlyRight(member)) return partlyMark(x, y);
  if (member.correct) return fill(SHAPES.circle(x, y, 8), { fill: color("right") }, []);
  if (member.answer == null || member.correct == null) {
    const empty = { fill: color("surface"), stroke: color("quiet"), "stroke-width": 1.5 };
    return fill(SHAPES.diamond(x, y, 7), empty, []);
  }
  return fill(SHAPES.square(x, y, 8), { fill: color("wrong") }, []);
}

/** The sizes of a picture, the places of its nodes, and their labels. */
class Layout {
  constructor(problem) {
    const steps = problem.steps;
    const most = Math.max(...steps.map((step) => step.members.length));
    this.rowHeight = most > MANY ? SMALL_ROW : ROW;
    this.letters = most > MANY ? 11 : 12.5;
    // few columns fill the width
    this.column = Math.min(190, Math.max(132, (WIDTH - 2 * PAD) / steps.length));
    this.width = PAD * 2 + this.column * steps.length;
    this.height = HEAD + most * this.rowHeight + 10;
    /** For each step, the row of each member. */
    this.rows = steps.map((step) => {
      const rows = [];
      drawnOrder(step).forEach((i, row) => (rows[i] = row));
      return rows;
    });
  }

  x(t) {
    return PAD + t * this.column + 8;
  }

  y(t, i) {
    return HEAD + (this.rows[t][i] + 0.5) * this.rowHeight;
  }

  label(member) {
    const most = Math.max(9, Math.floor((this.column - 84) / (0.62 * this.letters)));
    const text = plainly(brief(member));
    if (!isPartlyRight(member)) return cut(text, most);
    const score = `(${asScore(member.grade)})`;
    return `${cut(text, Math.max(3, most - score.length - 1))} ${score}`;
  }

  /** The end of a label. An edge begins there, or its first piece would look like a minus sign. */
  labelEnd(member) {
    const characters = [...this.label(member)].length + (member.doubt ? 1.5 : 0);
    return 18 + 0.62 * this.letters * characters;
  }
}

/**
 * The picture. `chosen` is the open member, "t,i". `dims(member, t, i)` is true for members that do
 * not pass the filter. `open(t, i)` opens a member.
 */
function lineage(problem, chosen, dims, open) {
  const layout = new Layout(problem);
  const { width, height } = layout;
  const edges = s("g", { fill: "none", class: "edges" });
  const nodes = s("g", {});
  const picture = s("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: "lineage",
    role: "group",
    "aria-label": `Lineage of problem ${problem.id}`,
    "font-family": "system-ui, sans-serif",
  });
  const light = (id) => lightUp(problem, edges, nodes, id);
  for (const [t, step] of problem.steps.entries()) {
    picture.append(...stepHead(step, layout.x(t) - 8));
    for (const [i, member] of step.members.entries()) {
      const id = `${t},${i}`;
      edges.append(...edgesTo(problem, layout, t, i));
      const state = { t, i, isChosen: chosen === id, isDimmed: dims(member, t, i) };
      const node = nodeOf(step, member, layout, state);
      fill(
        node,
        {
          onclick: () => open(t, i),
          onfocus: () => light(id),
          onblur: () => light(chosen),
          onmouseenter: () => light(id),
          onmouseleave: () => light(chosen),
          onkeydown: (event) => walk(event, problem, layout, nodes, { t, i, open }),
        },
        [],
      );
      nodes.append(node);
    }
  }
  picture.append(edges, nodes);
  if (!chosen) nodes.firstElementChild?.setAttribute("tabindex", 0);
  light(chosen);
  return picture;
}

/** The name of a step, and below it its points or its right members, after the mean score. */
function stepHead(step, x) {
  let result = NOT_GRADED;
  if (!isUngraded(step)) {
    const right = step.members.filter((member) => member.correct).length;
    const shares = `${right}/${step.members.length} right ${voteMark(step)}`;
    if (hasPoints(step)) result = `${shareOf(step)} of ${data.most} points`;
    else result = step.hasScores ? `${shareOf(step)} · ${shares}` : shares;
  }
  const name = { x, y: 16, fill: color("ink"), "font-size": 13, "font-weight": 600 };
  return [
    s("text", name, cut(stepName(step), 18)),
    s("text", { x, y: 33, fill: color("quiet"), "font-size": 12 }, result),
  ];
}

/** The edges from a member's parents. */
function edgesTo(problem, layout, t, i) {
  const edges = [];
  for (const j of problem.steps[t].members[i].parents) {
    const parent = problem.steps[t - 1]?.members[j];
    if (!parent) continue;
    const x0 = layout.x(t - 1) + layout.labelEnd(parent);
    const x1 = layout.x(t) - 10;
    const y0 = layout.y(t - 1, j);
    const y1 = layout.y(t, i);
    const bend = (x1 - x0) * 0.5;
    edges.push(
      s("path", {
        d: `M${x0},${y0}C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1},${y1}`,
        "data-from": `${t - 1},${j}`,
        "data-to": `${t},${i}`,
        stroke: edgeColor(parent),
        "stroke-opacity": 0.28,
        "stroke-width": 1.3,
        "stroke-dasharray": rightness(parent) === "wrong" ? "5 3" : null,
      }),
    );
  }
  return edges;
}

const edgeColor = (parent) =>
  parent.points_share != null ? shade(parent.points_share) : color(rightness(parent));

/** The node of a member: a rectangle that can be clicked, its mark, and its label. */
function nodeOf(step, member, layout, { t, i, isChosen, isDimmed }) {
  const x = layout.x(t);
  const y = layout.y(t, i);
  const { rowHeight, column } = layout;
  const words = nodeWords(step, member, i);
  const ink = color("ink");
  const ring = { fill: "none", stroke: ink, "stroke-width": 2, class: "chosen" };
  // over edges
  const halo = { stroke: color("surface"), "stroke-width": 4, "stroke-linejoin": "round" };
  const text = { x: x + 14, y: y + 4, fill: ink, "font-size": layout.letters };
  return s(
    "g",
    {
      tabindex: isChosen ? 0 : -1,
      role: "button",
      "aria-label": words,
      "data-id": `${t},${i}`,
      class: "node",
      opacity: isDimmed ? 0.2 : null,
      "aria-pressed": String(isChosen),
    },
    s("title", {}, words),
    s("rect", {
      x: x - 12,
      y: y - rowHeight / 2,
      width: column - 24,
      height: rowHeight,
      fill: "transparent",
    }),
    isChosen && s("circle", { cx: x, cy: y, r: 12, ...ring }),
    mark(member, x, y),
    s(
      "text",
      { ...text, "paint-order": "stroke", ...halo },
      layout.label(member),
      member.doubt && s("tspan", { fill: color("wrong") }, " ?"),
    ),
  );
}

function nodeWords(step, member, i) {
  const parts = [`${stepName(step)}, member ${i}: ${brief(member)}`, judged(member)];
  if (member.doubt) parts.push(`doubt: ${member.doubt}`);
  if (member.parents.length) parts.push(`from ${member.parents.join(", ")}`);
  return parts.join(", ");
}

/** Light up the ancestors and descendants of a member. Without one, all look alike. */
function lightUp(problem, edges, nodes, id) {
  const up = id && relatives(problem, id, false);
  const down = id && relatives(problem, id, true);
  for (const edge of edges.children) {
    const { from, to } = edge.dataset;
    const isUp = up && up.has(from) && up.has(to);
    const isDown = down && down.has(from) && down.has(to);
    const isLit = isUp || isDown;
    edge.setAttribute("stroke-opacity", isLit ? 0.95 : id ? 0.07 : 0.28);
    edge.setAttribute("stroke-width", isLit ? 2 : 1.3);
  }
  for (const node of nodes.children) {
    const isRelated = !id || up.has(node.dataset.id) || down.has(node.dataset.id);
    node.classList.toggle("far", !isRelated);
  }
}

/** Move the focus with the arrows, and open a member with Enter or space. */
function walk(event, problem, layout, nodes, { t, i, open }) {
  const row = layout.rows[t][i];
  const targets = {
    ArrowUp: [t, row - 1],
    ArrowDown: [t, row + 1],
    ArrowLeft: [t - 1, row],
    ArrowRight: [t + 1, row],
  };
  const target = targets[event.key];
  if (target && problem.steps[target[0]]) {
    const [toT, toRow] = target;
    const last = problem.steps[toT].members.length - 1;
    const next = layout.rows[toT].indexOf(Math.min(last, Math.max(0, toRow)));
    nodes.querySelector(`[data-id="${toT},${next}"]`).focus();
    event.preventDefault();
  }
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    open(t, i);
  }
}
