import { liveStreams } from "@espalier/engine/ui-messages";
import { expect, test, vi } from "vitest";

/** Milliseconds that a busy machine may take. */
const PATIENT = { timeout: 30_000 };

/** A stream to which a test gives the pieces. */
function spoken() {
  let controller!: ReadableStreamDefaultController<string>;
  const stream = new ReadableStream<string>({
    start: (given) => {
      controller = given;
    },
  });
  return {
    stream,
    say: (text: string) => controller.enqueue(text),
    end: () => controller.close(),
    controller,
  };
}

const read = (stream: ReadableStream | null) => new Response(stream).text();

test("a reader that joins later gets everything from the beginning", async () => {
  const streams = liveStreams();
  const { stream, say, end } = spoken();
  expect(streams.resume("ada")).toBeNull();
  streams.keep("ada", stream);
  const early = read(streams.resume("ada"));
  say("Pears ");
  say("and ");
  const late = streams.resume("ada")!.getReader();
  expect(new TextDecoder().decode((await late.read()).value)).toBe("Pears ");
  const rest = read(streams.resume("ada"));
  say("plüms.");
  end();
  expect(await early).toBe("Pears and plüms.");
  expect(await rest).toBe("Pears and plüms.");
  await late.cancel();
  await vi.waitFor(() => expect(streams.resume("ada")).toBeNull(), PATIENT);
});

test("a stream is read to its end without any client, or after the only one left", async () => {
  const streams = liveStreams();
  let pulled = 0;
  const stream = new ReadableStream<string>({
    pull(controller) {
      if (++pulled > 50) controller.close();
      else controller.enqueue(`${pulled} `);
    },
  });
  streams.keep("ada", stream);
  await streams.resume("ada")!.cancel();
  await vi.waitFor(() => expect(streams.resume("ada")).toBeNull(), PATIENT);
  expect(pulled).toBe(51);
});

test("a stream that breaks also breaks for its readers, and another one can replace it", async () => {
  const streams = liveStreams();
  const { stream, say, controller } = spoken();
  streams.keep("ada", stream);
  const reading = read(streams.resume("ada"));
  const next = spoken();
  streams.keep("ada", next.stream);
  say("Pea");
  controller.error(new Error("torn"));
  await expect(reading).rejects.toThrow("torn");
  const other = read(streams.resume("ada"));
  next.say("Plums.");
  next.end();
  expect(await other).toBe("Plums.");
});

test("a reader after thousands of others gets every piece, in order", async () => {
  const streams = liveStreams();
  const { stream, say, end } = spoken();
  streams.keep("ada", stream);
  for (let at = 0; at < 500; at++) say(`${at} `);
  for (let at = 0; at < 2_000; at++) {
    const reader = streams.resume("ada")!.getReader();
    await reader.read();
    await reader.cancel();
  }
  const late = streams.resume("ada")!.getReader();
  let heard = "";
  for (let at = 0; at < 500; at++) heard += new TextDecoder().decode((await late.read()).value);
  expect(heard).toBe(Array.from({ length: 500 }, (_, at) => `${at} `).join(""));
  end();
});
