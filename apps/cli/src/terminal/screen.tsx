import { render, Text, Transform } from "ink";
import { useSyncExternalStore } from "react";

/** What is shown, as a terminal takes it, and who wants to know when it changes. */
export interface Painted {
  current: () => string;
  subscribe: (changed: () => void) => () => void;
}

/** Times a second that the screen is drawn at most. */
const FRAMES = 60;

/**
 * The whole screen is one text, laid out by then: a component for each line costs three times as much a key. Ink is
 * given an empty text of the same size, and each line where it writes it: it measures every text it has not seen before,
 * character by character, and keeps what came of it for ever.
 */
function Screen({ painted }: { painted: Painted }) {
  const lines = useSyncExternalStore(painted.subscribe, painted.current).split("\n");
  return (
    <Transform transform={(_, at) => lines[at] ?? ""}>
      <Text wrap="truncate-end">{"\n".repeat(lines.length - 1)}</Text>
    </Transform>
  );
}

/** Begins to draw; the function that it returns ends it, and nothing is written from then on. */
export function drawScreen(painted: Painted, stdout: NodeJS.WriteStream): () => void {
  const output = new Output(stdout);
  const { unmount } = render(<Screen painted={painted} />, {
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

/** What moves the cursor below the last line of an output. */
const LAST_LINE_BREAK = /(?:\n|\u001b\[E)$/;

/**
 * Stdout as Ink 6.8.0 has to see it to use all of a screen and to write the lines that changed and nothing else. It
 * ends each output with a line break, which would scroll a full screen, and then counts one line too few on its way
 * back up: both are right when the break is left out. An output as high as the terminal it would erase and write
 * whole, with a flicker: so the terminal is said to be higher.
 */
class Output {
  readonly stream: NodeJS.WriteStream;
  /** False: what Ink writes when it ends, and sometimes later, would stand on somebody else's screen. */
  isOpen = true;

  constructor(stdout: NodeJS.WriteStream) {
    this.stream = Object.create(stdout, {
      rows: { get: () => stdout.rows + 1 },
      write: {
        value: (text: string) => (this.isOpen ? stdout.write(text.replace(LAST_LINE_BREAK, "")) : true),
      },
    });
  }
}
