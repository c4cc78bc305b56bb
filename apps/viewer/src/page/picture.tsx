import { fieldText, type ImageBlock } from "@espalier/session-tree";
import { useState } from "preact/hooks";

/** Pictures of pixels. Drawings that are programs of their own (SVG) are not shown. */
const SHOWN = /^image\/(png|jpeg|gif|webp)$/;

/** A picture of a message. Its bytes stand in the session; nothing is fetched. */
export function Picture({ block }: { block: ImageBlock }) {
  const [broken, setBroken] = useState(false);
  const data = fieldText(block.data);
  const isShown = SHOWN.test(fieldText(block.mimeType)) && /^[A-Za-z0-9+/=\s]*$/.test(data) && !broken;
  if (!isShown) return <p class="quiet">A picture that is not shown ({fieldText(block.mimeType)})</p>;
  return (
    <img
      class="picture"
      alt="Part of the conversation"
      src={`data:${block.mimeType};base64,${data}`}
      onError={() => setBroken(true)}
    />
  );
}
