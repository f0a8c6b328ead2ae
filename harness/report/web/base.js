// Elements, numbers, and the texts that are packed into the page or into files next to it.
// The texts of models reach the page only as text nodes.
"use strict";

/**
 * Functions of a lab's script (labs/star/web). view(data) is the first view. facts(run, member)
 * adds facts. tab(run), overview(run) and notes(run, member) replace the page's own if they return
 * anything, and problems(data) always does. All but view are optional.
 */
const lab = {};
const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") {
      for (const [key, setting] of Object.entries(value)) element.style.setProperty(key, setting);
    } else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

/** An HTML element. Children that are text become text nodes. */
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
/** An SVG element. */
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** One decimal, with an exact half rounded to the even digit, as in the terminal. */
const decimal = (x) => (x % 1 === 0.25 ? x - 0.05 : x).toFixed(1);
const percent = (share) => (share == null ? "–" : decimal(100 * share));
/** Mean and standard deviation over runs. */
const overRuns = (over) => `${percent(over.mean)} ± ${percent(over.std)}`;
const signed = (share) => (share >= 0 ? "+" : "−") + decimal(100 * Math.abs(share));
function dollars(amount) {
  if (amount == null) return "unknown";
  if (amount === 0 || amount >= 1) return "$" + amount.toFixed(2);
  return "$" + (amount >= 0.01 ? amount.toFixed(4) : amount.toPrecision(3));
}
const count = (n) => (n == null ? "unknown" : Math.round(n).toLocaleString("en-US"));
/** The sum of two counts, unknown (null) if one of them is. */
const plus = (a, b) => (a == null || b == null ? null : a + b);
const seconds = (x) => (x >= 100 ? count(x) : x.toFixed(1)) + " s";
function cut(text, most) {
  const characters = [...text];
  return characters.length > most ? characters.slice(0, most - 1).join("") + "…" : text;
}
const color = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
/** The name of a step: its number, and its stage if it has one. */
const stepName = (step) => `t=${step.step}` + (step.stage ? ` ${step.stage}` : "");
/** Ungraded proofs have no accuracies. */
const NOT_GRADED = "not graded";
function isGraded(run) {
  const steps = run.head.metrics.steps;
  return !steps.length || steps.some((step) => step.mean_accuracy.n > 0);
}
/** Whether some grades of a run's answers are between 0 and 1. Its figures are scores. */
const hasScores = (run) => run.head.metrics.steps.some((step) => step.partly_right > 0);
const accuracyOrScore = (run) => (hasScores(run) ? "score" : "accuracy");
/** Graded proofs have points in place of accuracies and votes. */
const ofProofs = (run) => run.head.metrics.proofs != null;
const MEAN_POINTS = () => `mean points, % of ${data.most}`;
const SHARES = () => ({
  points: MEAN_POINTS(),
  good: `${data.good} points or more`,
  full: `${data.most} points`,
});
/**
 * True for a proof after grading, also if its grade is missing. `points_share` is its points / 7,
 * and is missing without points.
 */
const isProof = (member) => member.points_share != null || member.ungraded != null;
/** Whether a member is right: true, false, or null if it is not graded. */
function isRightOne(member) {
  if (!isProof(member)) return member.correct ?? null;
  return member.points_share == null ? null : member.points_share * data.most > data.good - 1e-9;
}
/** Whether the grade of an answer is between 0 (wrong) and 1 (right). */
const isPartlyRight = (member) => !isProof(member) && member.grade > 0 && member.grade < 1;
/** The score of an answer, from 0 to 1. */
const scoreOf = (member) => member.grade ?? (member.correct ? 1 : 0);
const asScore = (score) => score.toFixed(2);
/** The kind of a member, which names its color. */
function rightness(member) {
  if (isPartlyRight(member)) return "partly";
  return { true: "right", false: "wrong" }[isRightOne(member)] ?? "quiet";
}
const inPoints = (share) => decimal(share * data.most).replace(".0", "");
/** The reason why a proof has no grade. */
const whyUngraded = (member) => member.ungraded.replace("cut off", "truncated");
/** The points of a proof, or the reason why it has none. */
const pointsOf = (member) =>
  member.ungraded ? whyUngraded(member) : `${inPoints(member.points_share)}/${data.most}`;
/** The verdict on a member in words. */
function judged(member) {
  if (isProof(member)) {
    if (member.ungraded) return `no grade: ${whyUngraded(member)}`;
    return `${inPoints(member.points_share)} of ${data.most} points`;
  }
  if (isPartlyRight(member)) return `partly right, score ${asScore(member.grade)}`;
  if (member.correct == null) return NOT_GRADED;
  return member.correct ? "right" : "wrong";
}
/**
 * The colour of a share of all points, between the colours of wrong and right, as #rrggbb for
 * exported pictures.
 */
function shade(share) {
  const channels = (name) => [1, 3, 5].map((at) => parseInt(color(name).slice(at, at + 2), 16));
  const low = channels("wrong");
  const high = channels("right");
  const mixed = low.map((x, n) => Math.round(x + (high[n] - x) * share));
  return "#" + mixed.map((x) => x.toString(16).padStart(2, "0")).join("");
}
const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || one + "s"}`;

/** The value of gzipped JSON in base64. */
async function unpacked(text) {
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  // Uint8Array.from takes twenty times as long
  for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const parts = new Map(); // id -> promise of the texts of a problem, for the newest KEPT
const KEPT = 16;
const awaited = new Map(); // id -> the function to call once its file has loaded

/** The function that the files next to the page call. */
function part(id, text) {
  awaited.get(id)?.(text);
}

function fetched(id) {
  if (document.body.dataset.live) {
    return fetch("part/" + id).then((answer) => {
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      return answer.json();
    });
  }
  const folder = document.body.dataset.texts;
  if (!folder) return Promise.resolve(null);
  return fromFile(folder, id)
    .finally(() => awaited.delete(id))
    .then((text) => text && unpacked(text));
}

/** The packed texts in a file next to the page, which is a script that calls part(). */
function fromFile(folder, id) {
  return new Promise((resolve, reject) => {
    awaited.set(id, resolve);
    const script = h("script", {
      src: `${encodeURIComponent(folder)}/${id}.js`,
      onload: () => {
        script.remove();
        resolve(null); // unless its part has come
      },
      onerror: () => {
        script.remove();
        reject(new Error(`${folder}/${id}.js is not next to this page`));
      },
    });
    document.head.append(script);
  });
}

/**
 * The texts of a problem: answers, short prompts and texts for graders in tier "a", all others in
 * tier "b". Null if there are none.
 */
function texts(run, problem, tier) {
  const id = `p${run}-${problem}-${tier}`;
  if (!parts.has(id)) {
    const inside = byId(id);
    const coming = inside ? unpacked(inside.textContent) : fetched(id);
    parts.set(id, coming);
    if (parts.size > KEPT) parts.delete(parts.keys().next().value);
    coming.catch(() => parts.delete(id));
  }
  return parts.get(id);
}

/** A paragraph in the quiet colour. */
const quiet = (...children) => h("p", { class: "quiet" }, ...children);
/** A paragraph that warns. */
const warning = (text) =>
  h("p", { class: "warning" }, h("span", { "aria-hidden": "true" }, "⚠ "), text);
/** The head of a table: a row with the names of its columns. */
const tableHead = (names) =>
  h(
    "thead",
    {},
    h(
      "tr",
      {},
      names.map((name) => h("th", { scope: "col" }, name)),
    ),
  );

/** A box that scrolls wide content, also with the keyboard. */
const scroll = (label, child, more) =>
  h(
    "div",
    { class: "scroll " + (more || ""), tabindex: 0, role: "region", "aria-label": label },
    child,
  );

/** Save an SVG as a file. The `picture` has its colours in attributes. */
function exported(picture, name) {
  const { width, height } = picture.viewBox.baseVal;
  const copy = picture.cloneNode(true);
  for (const [key, value] of Object.entries({ width, height })) copy.setAttribute(key, value);
  // as the style sheet has them
  for (const node of copy.querySelectorAll(".far")) node.setAttribute("opacity", 0.25);
  copy.prepend(s("rect", { width: "100%", height: "100%", fill: color("surface") }));
  const blob = new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
  const link = h("a", { href: URL.createObjectURL(blob), download: name + ".svg" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const exporting = (picture, name) =>
  h(
    "span",
    { class: "exports" },
    h(
      "button",
      { type: "button", "aria-label": `SVG of ${name}`, onclick: () => exported(picture(), name) },
      "SVG",
    ),
  );
