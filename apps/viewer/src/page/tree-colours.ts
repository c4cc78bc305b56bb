/** The colours in which the tree is drawn; the style sheet has them, for light and dark. */
export interface TreeColours {
  trunk: string;
  lanes: string[];
  faded: string;
  paper: string;
  ink: string;
  kinds: Record<string, string>;
}

const LANES = 6;

const KINDS: Readonly<Record<string, string>> = {
  u: "--user",
  a: "--answer",
  t: "--result",
  b: "--result",
  c: "--summary",
  f: "--summary",
  x: "--user",
};

export function readColours(element: Element): TreeColours {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    trunk: colour("--trunk"),
    lanes: Array.from({ length: LANES }, (_, lane) => colour(`--lane-${lane}`)),
    faded: colour("--line"),
    paper: colour("--paper"),
    ink: colour("--ink"),
    kinds: Object.fromEntries(Object.entries(KINDS).map(([kind, name]) => [kind, colour(name)])),
  };
}
