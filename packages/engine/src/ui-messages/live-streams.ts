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

/** A piece of a stream, or the error that ended it. Readers receive the error after all pieces. */
type Piece = Uint8Array | { error: unknown };

/**
 * Makes a keeper of running answers. It has an answer only while the answer is streamed. The session has the answer
 * before the stream ends, and also after the end of the process.
 */
export function liveStreams(): LiveStreams {
  const streams = new Map<string, { unread: ReadableStream<Piece> }>();
  return {
    keep(id, stream) {
      // The unread branch keeps all pieces, for readers that join later.
      const pieces = piecesOf(stream);
      const whole = new ReadableStream<Piece>({
        async pull(controller) {
          const { value, done } = await pieces.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
      });
      const [unread, drained] = whole.tee();
      const live = { unread };
      streams.set(id, live);
      void drained.pipeTo(new WritableStream()).then(() => {
        if (streams.get(id) === live) streams.delete(id);
      });
    },
    resume(id) {
      const live = streams.get(id);
      if (!live) return null;
      const [unread, joined] = live.unread.tee();
      live.unread = unread;
      const thrown = new TransformStream<Piece, Uint8Array>({
        transform: (piece, controller) =>
          piece instanceof Uint8Array ? controller.enqueue(piece) : controller.error(piece.error),
      });
      return joined.pipeThrough(thrown);
    },
  };
}

async function* piecesOf(stream: ReadableStream<string>): AsyncGenerator<Piece> {
  const encoder = new TextEncoder();
  try {
    for await (const piece of stream as unknown as AsyncIterable<string>) yield encoder.encode(piece);
  } catch (error) {
    yield { error };
  }
}
