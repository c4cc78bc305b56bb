import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

/** A running server. */
export interface LoopbackServer {
  /** Base address for clients. */
  url: string;
  /** Ends all connections and the server. */
  close(): Promise<void>;
}

/** Starts an HTTP server on a free port of 127.0.0.1. */
export async function startLoopbackServer(answer: RequestListener): Promise<LoopbackServer> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
