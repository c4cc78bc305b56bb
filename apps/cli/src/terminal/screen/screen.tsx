import { render, Text, Transform } from "ink";
import { useSyncExternalStore } from "react";

/** What is shown, as a terminal takes it, and who wants to know when it changes. */
export interface Painted {
  current: () => string;
  subscribe: (changed: () => void) => () => void;
}

/** Times a second that the screen is drawn at most. */
const FRAMES = 60;

/** The whole screen is one text, laid out by then, of which Ink knows the height and the names of its lines. */
function Screen({ painted, names }: { painted: Painted; names: LineNames }) {
  const named = names.of(useSyncExternalStore(painted.subscribe, painted.current).split("\n"));
  return (
    <Transform transform={(_, at) => named[at] ?? ""}>
      <Text>{"\n".repeat(named.length - 1)}</Text>
    </Transform>
  );
}

/** Begins to draw; the function that it returns ends it, and nothing is written from then on. */
export function drawScreen(painted: Painted, stdout: NodeJS.WriteStream): () => void {
  const names = new LineNames();
  const output = new Output(stdout, names);
  const { unmount } = render(<Screen painted={painted} names={names} />, {
    stdout: output.stream,
    exitOnCtrlC: false,
    patchConsole: false,
    incrementalRendering: true,
    maxFps: FRAMES,
  });
  return () => {
    output.isOpen = false;
    unmount();
  };
}

/** Characters that nobody has given a meaning: one says which line, and one how often it has changed. */
const PLACES = 0xe000;
const TIMES = 0xf000;
const MOST_TIMES = 0x400;
const NAME_COLUMNS = 2;
const NAME = /([\ue000-\uefff])[\uf000-\uf3ff]/g;

/**
 * Short names of a screen's lines, which change when the lines do. Ink takes each character of what it draws apart and
 * puts it together again, thirty times as much work as all else a key causes: so it is given names to compare, and the
 * lines stand in for them where it writes.
 */
class LineNames {
  #lines: readonly string[] = [];
  readonly #times: number[] = [];

  of(lines: readonly string[]): string[] {
    const before = this.#lines;
    this.#lines = lines;
    return lines.map((one, at) => {
      const times = (this.#times[at] ?? 0) + (one === before[at] ? 0 : 1);
      this.#times[at] = times % MOST_TIMES;
      return String.fromCharCode(PLACES + at, TIMES + this.#times[at]);
    });
  }

  /** What Ink writes, with the lines in the place of their names. */
  replaced(written: string): string {
    return written.replace(NAME, (_, place: string) => this.#lines[place.charCodeAt(0) - PLACES] ?? "");
  }
}

/** What moves the cursor below the last line of an output. */
const LAST_LINE_BREAK = /(?:\n|\u001b\[E)$/;

/**
 * Stdout as Ink 6.8.0 has to see it to use all of a screen and to write the lines that changed and nothing else. It
 * ends each output with a line break, which would scroll a full screen, and then counts one line too few on its way
 * back up: both are right when the break is left out. An output as high as the terminal it would erase and write
 * whole, with a flicker: so the terminal is said to be higher. And it is said to be as narrow as the names of lines are:
 * Ink makes an object of every cell.
 */
class Output {
  readonly stream: NodeJS.WriteStream;
  /** False: what Ink writes when it ends, and sometimes later, would stand on somebody else's screen. */
  isOpen = true;

  constructor(stdout: NodeJS.WriteStream, names: LineNames) {
    this.stream = Object.create(stdout, {
      rows: { get: () => stdout.rows + 1 },
      columns: { value: NAME_COLUMNS },
      write: {
        value: (text: string) =>
          this.isOpen ? stdout.write(names.replaced(text.replace(LAST_LINE_BREAK, ""))) : true,
      },
    });
  }
}
