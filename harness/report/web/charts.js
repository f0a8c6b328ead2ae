// Line charts with 95% bands: accuracy over steps, pass@k, accuracy against tokens.

/** Round positions between low and high, about `wanted` of them. */
function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high * 1.0001; x += step) found.push(x);
  return found;
}

const short = (n) =>
  n == null
    ? "unknown"
    : n >= 1e9
      ? +(n / 1e9).toPrecision(3) + "G"
      : n >= 1e6
        ? +(n / 1e6).toPrecision(3) + "M"
        : n >= 1e4
          ? +(n / 1e3).toPrecision(3) + "k"
          : String(+n.toPrecision(6));

const SHAPES = {
  circle: (x, y, r) => s("circle", { cx: x, cy: y, r }),
  square: (x, y, r) =>
    s("rect", { x: x - r * 0.88, y: y - r * 0.88, width: r * 1.76, height: r * 1.76 }),
  diamond: (x, y, r) =>
    s("path", {
      d: `M${x},${y - r * 1.2}L${x + r * 1.2},${y}L${x},${y + r * 1.2}L${x - r * 1.2},${y}Z`,
    }),
  triangle: (x, y, r) =>
    s("path", {
      d: `M${x},${y - r * 1.15}L${x + r * 1.1},${y + r * 0.85}L${x - r * 1.1},${y + r * 0.85}Z`,
    }),
};
const SHAPE_NAMES = Object.keys(SHAPES);

/**
 * Accuracy (shares, drawn in percent) over x. `series`: [{name, color, shape, dash, plain (without a band), points: [{x, y, low, high, words}]}].
 * A pointer on a point shows its words.
 */
function chart({ title, xLabel, yLabel = "accuracy, %", series, whole }) {
  const width = Math.min(560, Math.max(300, byId("main").clientWidth - 26)),
    height = 330, // letters of one size on all screens
    left = 46,
    right = 18,
    top = 14,
    bottom = 44;
  const all = series.flatMap((one) => one.points).filter((p) => p.y != null);
  if (!all.length)
    return h("p", { class: "quiet" }, "Nothing to draw: no finished step has these figures.");
  let low = Math.min(...all.map((p) => p.x)),
    high = Math.max(...all.map((p) => p.x));
  if (!whole) low = 0;
  if (low === high) [low, high] = [low - 1, high + 1];
  const X = (x) => left + ((x - low) / (high - low)) * (width - left - right);
  const Y = (y) => top + (1 - y) * (height - top - bottom);
  const ink = color("ink"),
    faint = color("line");
  const label = (x, y, text, more) =>
    s("text", { x, y, fill: ink, "font-size": 12, ...more }, text);
  const [marks, end] = legend(series, width, height + 8);
  const picture = s(
    "svg",
    {
      viewBox: `0 0 ${width} ${end}`,
      role: "img",
      class: "chart",
      "font-family": "system-ui, sans-serif",
      "aria-label": `${title}: ${series.map((one) => one.name).join(", ")}`,
    },
    marks,
  );
  for (const y of [0, 0.25, 0.5, 0.75, 1]) {
    picture.append(
      s("line", { x1: left, x2: width - right, y1: Y(y), y2: Y(y), stroke: faint }),
      label(left - 8, Y(y) + 4, String(100 * y), { "text-anchor": "end" }),
    );
  }
  for (const x of ticks(low, high, whole ? Math.min(10, high - low) : 5).filter((at) => at >= 0)) {
    picture.append(label(X(x), height - bottom + 18, short(x), { "text-anchor": "middle" }));
  }
  picture.append(
    label((left + width - right) / 2, height - 6, xLabel, { "text-anchor": "middle" }),
    label(0, 0, yLabel, {
      "text-anchor": "middle",
      transform: `translate(12,${(top + height - bottom) / 2}) rotate(-90)`,
    }),
  );
  for (const one of series) {
    const points = one.points.filter((p) => p.y != null);
    const there = points.map((p) => `${X(p.x)},${Y(p.y)}`);
    if (points.length > 1) {
      const band = [
        ...points.map((p) => `${X(p.x)},${Y(p.high)}`),
        ...points.toReversed().map((p) => `${X(p.x)},${Y(p.low)}`),
      ];
      picture.append(
        s("polygon", { points: band.join(" "), fill: one.color, opacity: one.plain ? 0 : 0.14 }),
        s("polyline", {
          points: there.join(" "),
          fill: "none",
          stroke: one.color,
          "stroke-width": 2,
          "stroke-dasharray": one.dash,
        }),
      );
    }
    for (const p of points) {
      const ends =
        points.length > 1
          ? []
          : s("line", {
              x1: X(p.x),
              x2: X(p.x),
              y1: Y(p.low),
              y2: Y(p.high),
              stroke: one.color,
              "stroke-width": 2,
            });
      picture.append(
        s(
          "g",
          { fill: one.color },
          ends,
          fill(SHAPES[one.shape](X(p.x), Y(p.y), 4.5), {}, [s("title", {}, p.words)]),
        ),
      );
    }
  }
  return picture;
}

/** The legend of a chart in rows from `y` on: its elements, and the y of its end. */
function legend(series, width, y) {
  let x = 6;
  const entries = series.map((one) => {
    const name = cut(one.name, Math.floor((width - 50) / 7)),
      wide = 52 + 7 * name.length;
    if (x > 6 && x + wide > width) [x, y] = [6, y + 20];
    const entry = s(
      "g",
      { transform: `translate(${x},${y})` },
      s("line", {
        x1: 0,
        x2: 28,
        y1: 0,
        y2: 0,
        stroke: one.color,
        "stroke-width": 2,
        "stroke-dasharray": one.dash,
      }),
      s("g", { fill: one.color }, SHAPES[one.shape](14, 0, 4.5)),
      s("text", { x: 34, y: 4, fill: color("ink"), "font-size": 12 }, name),
    );
    x += wide;
    return entry;
  });
  return [entries, y + 12];
}

/** A chart with a button that saves it. */
function figure(options, name) {
  const picture = chart(options);
  return h(
    "figure",
    {},
    h("figcaption", {}, options.title, picture.tagName === "svg" && exporting(() => picture, name)),
    picture,
  );
}
