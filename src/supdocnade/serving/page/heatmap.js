// Contributions to a score, in colour over the grey photograph, as in the report.

const TEXTURE = 0.45; // Remaining contrast of the photograph where the contribution is zero.
const MAX_SIDE = 1000;

// Colours of levels 0 to 255, which represent -limit to limit.
function colourTable(colours) {
  const stops = colours.map((colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)));
  return Array.from({ length: 256 }, (_, level) => {
    const position = (Math.max(level - 1, 0) / 254) * (stops.length - 1);
    const [low, high] = [stops[Math.floor(position)], stops[Math.ceil(position)]];
    return low.map((value, channel) => value + (position % 1) * (high[channel] - value));
  });
}

function blend(pixels, levels, colours) {
  for (let i = 0; i < pixels.length; i += 4) {
    const level = levels[i];
    const grey = (0.299 * pixels[i] + 0.587 * pixels[i + 1] + 0.114 * pixels[i + 2]) / 255;
    const relief = 255 * TEXTURE * (1 - 0.5 * Math.abs(level - 128) / 127) * (grey - 0.5);
    for (let channel = 0; channel < 3; channel += 1) pixels[i + channel] = colours[level][channel] + relief;
  }
}

function createContext(width, height) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  return context;
}

// Draws the map on a canvas, over plain grey if the browser cannot show the photograph.
export async function drawHeatmap(canvas, photograph, explanation) {
  const bytes = Uint8Array.from(atob(explanation.map), (letter) => letter.charCodeAt(0));
  const map = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const scale = MAX_SIDE / Math.max(explanation.width, explanation.height);
  [canvas.width, canvas.height] = [Math.round(explanation.width * scale), Math.round(explanation.height * scale)];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (photograph) context.drawImage(photograph, 0, 0, canvas.width, canvas.height);
  else {
    context.fillStyle = "#808080";
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  const levels = createContext(canvas.width, canvas.height);
  levels.drawImage(map, 0, 0, canvas.width, canvas.height);
  const picture = context.getImageData(0, 0, canvas.width, canvas.height);
  blend(picture.data, levels.getImageData(0, 0, canvas.width, canvas.height).data, colourTable(explanation.colours));
  context.putImageData(picture, 0, 0);
}

// Draws the colour scale from left to right.
export function drawLegend(canvas, explanation) {
  [canvas.width, canvas.height] = [256, 1];
  const context = canvas.getContext("2d");
  const picture = context.createImageData(256, 1);
  colourTable(explanation.colours).forEach((colour, level) => picture.data.set([...colour.map(Math.round), 255], 4 * level));
  context.putImageData(picture, 0, 0);
}
