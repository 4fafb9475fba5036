/** Points on a plane: how they fit into a drawing, which is under the pointer, which names there is room for. */
export interface Point {
  id: number;
  text: string;
  x: number;
  y: number;
}

export interface Frame {
  scale: number;
  left: number;
  top: number;
}

/** One unit is as long to the right as it is upward, so that what looks near is near. */
export function fitted(points: readonly Point[], width: number, height: number, margin: number): Frame {
  const [x0, x1] = ends(points.map((point) => point.x));
  const [y0, y1] = ends(points.map((point) => point.y));
  const scale = Math.min((width - 2 * margin) / (x1 - x0 || 1), (height - 2 * margin) / (y1 - y0 || 1));
  return { scale, left: width / 2 - (scale * (x0 + x1)) / 2, top: height / 2 + (scale * (y0 + y1)) / 2 };
}

function ends(values: number[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return low > high ? [0, 1] : [low, high];
}

export function onScreen(frame: Frame, point: { x: number; y: number }): [number, number] {
  return [frame.left + frame.scale * point.x, frame.top - frame.scale * point.y];
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function meet(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** The boxes that are drawn: in the order given, each where none before it stands; the first `must` in any case. */
export function roomFor(boxes: readonly Box[], must: number, most: number): number[] {
  const taken: number[] = [];
  for (const [n, box] of boxes.entries()) {
    if (taken.length >= most) break;
    if (n < must || !taken.some((other) => meet(box, boxes[other]!))) taken.push(n);
  }
  return taken;
}

/** The nearest point towards an arrow key: within 45 degrees of it. */
export function towards(points: readonly Point[], from: Point, right: number, up: number): Point | null {
  let best: Point | null = null;
  let least = Infinity;
  for (const point of points) {
    const [dx, dy] = [point.x - from.x, point.y - from.y];
    const along = dx * right + dy * up;
    const aside = Math.abs(dx * up - dy * right);
    const length = dx * dx + dy * dy;
    if (along > 0 && aside <= along && length < least) [best, least] = [point, length];
  }
  return best;
}

/** Which of the words a search means: those that begin with it, then those that have it inside. */
export function matching(points: readonly Point[], typed: string, most: number): Point[] {
  const wanted = typed.trim().toLowerCase();
  if (!wanted) return [];
  const plain = (point: Point) => point.text.replaceAll("␣", "").toLowerCase();
  const begin = points.filter((point) => plain(point).startsWith(wanted));
  const inside = points.filter((point) => !plain(point).startsWith(wanted) && plain(point).includes(wanted));
  return [...begin, ...inside].slice(0, most);
}
