import { render } from "preact";
import { App } from "./app.tsx";
import { embeddedBytes, localSource, servedSource } from "./page-source.ts";
import { showControls } from "./visible-controls.ts";

showControls();
const root = document.getElementById("app")!;
const local = localSource();

try {
  const bytes = await embeddedBytes();
  if (bytes) await local.add("this page", bytes);
  render(<App served={servedSource()} local={local} />, root);
} catch (error) {
  root.textContent = error instanceof Error ? error.message : String(error);
}
