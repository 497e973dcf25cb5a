// How pages of `rewriter view` and HTML reports do in a browser: time to the first picture, frames while panning, messages,
// requests, and what axe-core finds.
//
//     npm install playwright-core axe-core && node benchmarks/viewer.js PAGE.html...      (needs Chromium)
const { chromium } = require('playwright-core');
const fs = require('fs');
const path = require('path');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

async function frames() {
  const pane = page.panes[0], start = performance.now();
  let count = 0;
  while (performance.now() - start < 2000) {
    pane.x += 5; pane.y -= 7; pane.paint();
    await new Promise(requestAnimationFrame);
    count++;
  }
  return count / 2;
}

async function look(browser, file, [width, height, colorScheme]) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, bypassCSP: true });
  const tab = await context.newPage(), said = [];
  let requests = 0, fps = '-';
  tab.on('console', message => said.push(message.text()));
  tab.on('pageerror', error => said.push(error.message));
  tab.on('request', one => { if (!/^(file|blob|data):/.test(one.url())) requests++; });
  const start = Date.now();
  await tab.goto('file://' + path.resolve(file));
  const models = await tab.evaluate(() => typeof DATA === 'undefined' ? 0 : DATA.models.length);
  await tab.waitForFunction(n => Number(document.documentElement.dataset.ready || 0) >= n, models, { timeout: 100000 });
  const ready = Date.now() - start;
  if (models) fps = await tab.evaluate(frames);
  await tab.evaluate(axe);
  const found = (await tab.evaluate(() => window.axe.run())).violations;
  console.log(`${file} ${width}x${height} ${colorScheme}: ${ready} ms, ${fps} frames/s, ${said.length} messages, ${requests} requests, ${found.length} findings`);
  for (const one of found) console.log(`    ${one.impact}: ${one.help} (${one.nodes[0].target})`);
  await context.close();
  return found.some(one => ['serious', 'critical'].includes(one.impact)) || said.length || requests;
}

(async () => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
  let bad = false;
  for (const file of process.argv.slice(2))
    for (const screen of [[1400, 900, 'light'], [1400, 900, 'dark'], [390, 844, 'light'], [390, 844, 'dark']])
      bad = await look(browser, file, screen) || bad;
  await browser.close();
  process.exit(bad ? 1 : 0);
})();
