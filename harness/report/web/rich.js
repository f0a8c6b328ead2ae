// Texts with their mathematics drawn and their Markdown set.

const LONG = 40000; // characters shown at once. The rest follows on demand
const readingState = { filter: "all", source: false }; // `source`: texts are shown as they are

// Mathematics: $…$ and \(…\) within a line, $$…$$, \[…\] and environments across lines. A dollar
// after a blank or before a digit closes no formula, because it is money. Markdown: only code,
// headings and bold.
const ENVIRONMENTS =
  "(?:equation|align|alignat|gather|aligned|gathered|cases|array|[bpvV]?matrix)\\*?";
const RICH = new RegExp(
  [
    /\$\$([^]{1,4000}?)\$\$/,
    /\\\[([^]{1,4000}?)\\\]/,
    new RegExp(
      `(\\\\begin\\{(?<environment>${ENVIRONMENTS})\\}[^]{1,4000}?\\\\end\\{\\k<environment>\\})`,
    ),
    /\\\(([^]{1,2000}?)\\\)/,
    /\$(?=\S)([^$\n]{0,1000}?[^\s\\$])\$(?!\d)/,
    /(\\boxed\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,200}\}){0,500}\})/,
    /^ *```.*\n([^]*?)(?:^ *```[^\S\n]*$|$(?![^]))/,
    /`([^`\n]+)`/,
    /^#{1,6} +(.+)$/,
    /\*\*(?=\S)((?:(?!\n\n)[^]){1,1000}?)\*\*/,
  ]
    .map((part) => part.source)
    .join("|"),
  "gm",
);

// Levels of KaTeX's parse tree. From 180 on, layout overflows the browser's stack and kills the
// tab.
const DEEPEST_MATHS = 60;
// Nodes of parse trees that one text may draw, each about five elements: a second or two.
const MOST_MATHS = 40000;
// Two lines of definitions can make millions of tokens.
const DEFINES = /\\(?:[egx]?def|let|futurelet|(?:re)?newcommand|providecommand)(?![a-zA-Z])/;
let room = 0; // nodes that the text at hand may still draw

/** Count the nodes of KaTeX's parse tree. Return Infinity if it is deeper than DEEPEST_MATHS. */
function sizeOf(tree) {
  let size = 0;
  const open = [[tree, 0]];
  while (open.length) {
    const [node, above] = open.pop();
    const isNode = Boolean(node.type);
    const depth = isNode ? above + 1 : above;
    if (depth > DEEPEST_MATHS) return Infinity;
    if (isNode) size++;
    for (const [name, child] of Object.entries(node)) {
      if (name !== "loc" && child && typeof child === "object") open.push([child, depth]);
    }
  }
  return size;
}

/**
 * Draw mathematics into an element. Return null if KaTeX can't read it, if it defines macros, or if
 * it is too deep or large.
 */
function maths(tex, displayMode) {
  const place = h("span", { class: "maths" });
  const source = tex.replace(/\\label\{[^{}]*\}/g, "");
  const options = {
    displayMode,
    throwOnError: true,
    trust: false,
    strict: false,
    maxExpand: 200,
    maxSize: 20,
  };
  if (DEFINES.test(source)) return null;
  try {
    const size = sizeOf(katex.__parse(source, options)) + 2; // 2: the elements around a formula
    if (size > room) return null;
    room -= size;
    katex.render(source, place, options);
  } catch {
    return null;
  }
  return place;
}

/**
 * Text with its mathematics drawn and its Markdown set. Unreadable parts stay as they are, and so
 * do parts deeper than bold in a heading.
 */
function rich(text, depth = 0) {
  if (readingState.source || depth > 2) return [text];
  if (!depth) room = MOST_MATHS;
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(RICH)) {
    const { element, endsLine } = richPart(match, depth);
    if (!element) continue;
    nodes.push(text.slice(end, match.index), element);
    end = match.index + match[0].length;
    if (endsLine && text[end] === "\n") end++; // a block ends its line by itself
  }
  return [...nodes, text.slice(end)];
}

/** The element of a match of RICH, or null, and whether it is a block. */
function richPart(match, depth) {
  const [, dollars, bracket, environment, , paren, dollar, boxed] = match;
  const [block, code, heading, bold] = match.slice(8);
  const display = dollars ?? bracket ?? environment;
  if (display != null) return { element: maths(display, true), endsLine: true };
  const inline = paren ?? dollar ?? boxed;
  if (inline != null) return { element: maths(inline, false) };
  if (block != null) return { element: h("code", { class: "block" }, block), endsLine: true };
  if (code) return { element: h("code", {}, code) };
  if (heading) {
    const element = h("strong", { class: "block" }, rich(heading, depth + 1));
    return { element, endsLine: true };
  }
  return { element: h("strong", {}, rich(bold, depth + 1)) };
}

/** A long text, of which the first part is shown at once. `set` turns a text into nodes. */
function prose(text, label, set = rich) {
  const attributes = { class: "prose", tabindex: 0, role: "region", "aria-label": label };
  const box = h("div", attributes, set(text.slice(0, LONG)));
  if (text.length <= LONG) return box;
  let shown = LONG;
  const words = () => `show more (${count(text.length - shown)} characters left)`;
  const extend = () => {
    box.append(...set(text.slice(shown, shown + 4 * LONG)));
    shown += 4 * LONG;
    if (shown >= text.length) more.remove();
    else more.textContent = words();
  };
  const more = h("button", { type: "button", onclick: extend }, words());
  return [box, more];
}
