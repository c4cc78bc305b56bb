/** Answers that this process is streaming, for pages that are loaded again. Made by {@link liveStreams}. */
export interface LiveStreams {
  /**
   * Keeps a stream until it ends, and reads it even if no client listens; for `consumeSseStream` of the AI SDK. Another
   * stream with the same id replaces it.
   */
  keep(id: string, stream: ReadableStream<string>): void;
  /** Returns the stream from its beginning, as bytes for a response; null when no stream is running: answer 204. */
  resume(id: string): ReadableStream<Uint8Array> | null;
}

interface Live {
  pieces: Uint8Array[];
  isOver: boolean;
  error?: unknown;
  /** Called for each new piece, and at the end. */
  listeners: Set<() => void>;
}

/**
 * Makes a keeper of running answers. It has an answer only while the answer is streamed. The session has the answer
 * before the stream ends, and also after the end of the process.
 */
export function liveStreams(): LiveStreams {
  const streams = new Map<string, Live>();
  return {
    keep(id, stream) {
      const live: Live = { pieces: [], isOver: false, listeners: new Set() };
      streams.set(id, live);
      void drain(live, stream).then(() => {
        if (streams.get(id) === live) streams.delete(id);
      });
    },
    resume(id) {
      const live = streams.get(id);
      return live ? replay(live) : null;
    },
  };
}

async function drain(live: Live, stream: ReadableStream<string>): Promise<void> {
  const encoder = new TextEncoder();
  try {
    for await (const piece of stream as unknown as AsyncIterable<string>) {
      live.pieces.push(encoder.encode(piece));
      for (const listener of live.listeners) listener();
    }
  } catch (error) {
    live.error = error; // told to those who read
  }
  live.isOver = true;
  for (const listener of live.listeners) listener();
}

function replay(live: Live): ReadableStream<Uint8Array> {
  let at = 0;
  let wake: () => void = () => {};
  const listener = () => wake();
  return new ReadableStream<Uint8Array>({
    start: () => void live.listeners.add(listener),
    async pull(controller) {
      while (at === live.pieces.length && !live.isOver)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      const piece = live.pieces[at++];
      if (piece) return controller.enqueue(piece);
      live.listeners.delete(listener);
      if (live.error === undefined) controller.close();
      else controller.error(live.error);
    },
    cancel: () => void live.listeners.delete(listener),
  });
}
