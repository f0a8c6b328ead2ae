// Line charts with 95% bands: accuracy over steps, pass@k, accuracy against tokens.

/** Round positions between low and high, about `wanted` of them. */
function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  const positions = [];
  for (let x = Math.ceil(low / step) * step; x <= high * 1.0001; x += step) positions.push(x);
  return positions;
}

function short(n) {
  if (n == null) return "unknown";
  if (n >= 1e9) return +(n / 1e9).toPrecision(3) + "G";
  if (n >= 1e6) return +(n / 1e6).toPrecision(3) + "M";
  return n >= 1e4 ? +(n / 1e3).toPrecision(3) + "k" : String(+n.toPrecision(6));
}

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
/** The left half of a circle. */
const halfCircle = (x, y, r) => s("path", { d: `M${x},${y - r}A${r},${r} 0 0 0 ${x},${y + r}Z` });

// The margins and the height of a chart. Letters have one size on all screens.
const PLOT = { height: 330, left: 46, right: 18, top: 14, bottom: 44 };

/**
 * Accuracy (shares, drawn in percent) over x. `series`: [{name, color, shape, dash, plain (without
 * a band), points: [{x, y, low, high, words}]}]. A pointer on a point shows its words.
 */
function chart({ title, xLabel, yLabel = "accuracy, %", series: lines, whole }) {
  const series = separated(lines);
  const width = Math.min(560, Math.max(300, byId("main").clientWidth - 26));
  const all = series.flatMap((line) => line.points).filter((point) => point.y != null);
  if (!all.length) return quiet("Nothing to draw: no finished step has these figures.");
  let low = whole ? Math.min(...all.map((point) => point.x)) : 0;
  let high = Math.max(...all.map((point) => point.x));
  if (low === high) {
    low -= 1;
    high += 1;
  }
  const inner = width - PLOT.left - PLOT.right;
  const X = (x) => PLOT.left + ((x - low) / (high - low)) * inner;
  const Y = (y) => PLOT.top + (1 - y) * (PLOT.height - PLOT.top - PLOT.bottom);
  const [marks, end] = legend(series, width, PLOT.height + 8);
  const picture = s(
    "svg",
    {
      viewBox: `0 0 ${width} ${end}`,
      role: "img",
      class: "chart",
      "font-family": "system-ui, sans-serif",
      "aria-label": `${title}: ${series.map((line) => line.name).join(", ")}`,
    },
    marks,
  );
  const positions = ticks(low, high, whole ? Math.min(10, high - low) : 5);
  picture.append(
    ...axes(width, X, Y, positions),
    chartLabel((width + PLOT.left - PLOT.right) / 2, PLOT.height - 6, xLabel, "middle"),
    chartLabel(0, 0, yLabel, "middle", {
      transform: `translate(12,${(PLOT.top + PLOT.height - PLOT.bottom) / 2}) rotate(-90)`,
    }),
  );
  for (const line of series) picture.append(...curve(line, X, Y));
  return picture;
}

/** The dashes of the shape with this number, which fall into the gaps of all others. */
function inTurn(number, shapes, length) {
  const dashes = shapes > 1 ? `${length} ${length * (shapes - 1)}` : null;
  return { "stroke-dasharray": dashes, "stroke-dashoffset": -length * number };
}

/**
 * The lines, with dashes for the edges of bands, and for solid lines that have a part in common.
 * So equal ones don't hide each other.
 */
function separated(lines) {
  const banded = lines.filter((line) => !line.plain && line.points.length > 1);
  return lines.map((line) => {
    const peers = lines.filter((other) => other === line || haveCommonPart(other, line));
    return {
      ...line,
      edge: inTurn(banded.indexOf(line), banded.length, 4),
      turn: peers.length > 1 && inTurn(peers.indexOf(line), peers.length, 8),
    };
  });
}

function haveCommonPart(a, b) {
  if (a.dash || b.dash) return false; // a dashed line shows the line below it
  const parts = ({ points }) => points.slice(1).map((end, n) => part(points[n], end));
  const part = (...ends) => ends.map((point) => `${point.x} ${point.y}`).join(" ");
  const others = new Set(parts(b));
  return parts(a).some((one) => others.has(one));
}

const chartLabel = (x, y, text, anchor, more) =>
  s("text", { x, y, fill: color("ink"), "font-size": 12, "text-anchor": anchor, ...more }, text);

/** The lines at 0 to 100% with their labels, and labels below the ticks of x. */
function axes(width, X, Y, positions) {
  const elements = [];
  for (const y of [0, 0.25, 0.5, 0.75, 1]) {
    const line = { x1: PLOT.left, x2: width - PLOT.right, y1: Y(y), y2: Y(y) };
    elements.push(
      s("line", { ...line, stroke: color("line") }),
      chartLabel(PLOT.left - 8, Y(y) + 4, String(100 * y), "end"),
    );
  }
  for (const x of positions) {
    if (x >= 0) {
      elements.push(chartLabel(X(x), PLOT.height - PLOT.bottom + 18, short(x), "middle"));
    }
  }
  return elements;
}

/** The band, the line and the points of a series. A single point has a bar. */
function curve(line, X, Y) {
  const points = line.points.filter((point) => point.y != null);
  const stroke = { stroke: line.color, "stroke-width": 2 };
  const elements = [];
  if (points.length > 1) {
    const middle = points.map((point) => `${X(point.x)},${Y(point.y)}`);
    const upper = points.map((point) => `${X(point.x)},${Y(point.high)}`);
    const lower = points.toReversed().map((point) => `${X(point.x)},${Y(point.low)}`);
    const dashes = line.turn || { "stroke-dasharray": line.dash };
    if (!line.plain) elements.push(band([...upper, ...lower].join(" "), line));
    elements.push(
      s("polyline", { points: middle.join(" "), fill: "none", ...stroke, ...dashes }),
    );
  }
  for (const point of points) {
    const x = X(point.x);
    const bar = { x1: x, x2: x, y1: Y(point.low), y2: Y(point.high), ...stroke };
    const mark = SHAPES[line.shape](x, Y(point.y), 4.5);
    mark.append(s("title", {}, point.words));
    elements.push(s("g", { fill: line.color }, points.length === 1 && s("line", bar), mark));
  }
  return elements;
}

/** The band of a line, with an edge. */
function band(points, line) {
  const edge = { stroke: line.color, "stroke-opacity": 0.7, ...line.edge };
  return s("polygon", { points, fill: line.color, "fill-opacity": 0.11, ...edge });
}

/** The legend of a chart in rows from `y` on: its elements, and the y of its end. */
function legend(series, width, y) {
  let x = 6;
  const entries = [];
  for (const line of series) {
    const name = cut(line.name, Math.floor((width - 50) / 7));
    const entryWidth = 52 + 7 * name.length;
    if (x > 6 && x + entryWidth > width) {
      x = 6;
      y += 20;
    }
    const stroke = { stroke: line.color, "stroke-width": 2, "stroke-dasharray": line.dash };
    entries.push(
      s(
        "g",
        { transform: `translate(${x},${y})` },
        s("line", { x1: 0, x2: 28, y1: 0, y2: 0, ...stroke }),
        s("g", { fill: line.color }, SHAPES[line.shape](14, 0, 4.5)),
        s("text", { x: 34, y: 4, fill: color("ink"), "font-size": 12 }, name),
      ),
    );
    x += entryWidth;
  }
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
