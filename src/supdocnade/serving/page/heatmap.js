// What spoke for and against, in colour over the photograph in quiet grey, as in the report.

const TEXTURE = 0.45; // How much of the photograph's contrast remains where nothing was said.
const LARGEST = 1000;

// Colours of levels 0 to 255, which stand for -limit to limit.
function table(colours) {
  const stops = colours.map((colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));
  return Array.from({ length: 256 }, (_, level) => {
    const place = (Math.max(level - 1, 0) / 254) * (stops.length - 1);
    const [low, high] = [stops[Math.floor(place)], stops[Math.ceil(place)]];
    return low.map((value, channel) => value + (place % 1) * (high[channel] - value));
  });
}

function blend(pixels, levels, colours) {
  for (let at = 0; at < pixels.length; at += 4) {
    const level = levels[at];
    const grey = (0.299 * pixels[at] + 0.587 * pixels[at + 1] + 0.114 * pixels[at + 2]) / 255;
    const relief = 255 * TEXTURE * (1 - 0.5 * Math.abs(level - 128) / 127) * (grey - 0.5);
    for (let channel = 0; channel < 3; channel += 1) pixels[at + channel] = colours[level][channel] + relief;
  }
}

function canvasOf(width, height) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  return context;
}

// Draws on a canvas; without a photograph that this browser can show, on plain grey.
export async function drawHeat(canvas, photograph, found) {
  const bytes = Uint8Array.from(atob(found.map), (letter) => letter.charCodeAt(0));
  const map = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const scale = LARGEST / Math.max(found.width, found.height);
  [canvas.width, canvas.height] = [Math.round(found.width * scale), Math.round(found.height * scale)];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (photograph) context.drawImage(photograph, 0, 0, canvas.width, canvas.height);
  else {
    context.fillStyle = "#808080";
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  const levels = canvasOf(canvas.width, canvas.height);
  levels.drawImage(map, 0, 0, canvas.width, canvas.height);
  const picture = context.getImageData(0, 0, canvas.width, canvas.height);
  blend(picture.data, levels.getImageData(0, 0, canvas.width, canvas.height).data, table(found.colours));
  context.putImageData(picture, 0, 0);
}

// Draws the colours from left to right.
export function drawLegend(canvas, found) {
  [canvas.width, canvas.height] = [256, 1];
  const context = canvas.getContext("2d");
  const colours = table(found.colours);
  const picture = context.createImageData(256, 1);
  colours.forEach((colour, level) => picture.data.set([...colour.map(Math.round), 255], 4 * level));
  context.putImageData(picture, 0, 0);
}
