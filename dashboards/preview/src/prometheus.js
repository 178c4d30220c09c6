// A data source that asks Prometheus as Grafana's own does, which is not published: macros, legends, tables.
import { DataSourceApi, FieldType, toDataFrame } from '@grafana/data';
import { getTemplateSrv } from '@grafana/runtime';
import { from } from 'rxjs';

const escaped = (text) => String(text).replace(/[\\^$*+?.()|[\]{}]/g, '\\\\$&');
const matching = (value) =>
  !Array.isArray(value) ? value : value.length === 1 ? escaped(value[0]) : `(${value.map(escaped).join('|')})`;

export class Prometheus extends DataSourceApi {
  constructor(settings, { url, scrapeSeconds }) {
    super(settings);
    this.url = url;
    this.scrapeSeconds = scrapeSeconds;
    this.interval = `${scrapeSeconds}s`;
    this.asked = [];
    this.pending = 0;
  }

  async testDatasource() {
    return { status: 'success' };
  }

  resolved(expression, scopedVars, { stepSeconds, rangeSeconds }) {
    const rate = Math.max(stepSeconds + this.scrapeSeconds, 4 * this.scrapeSeconds);
    const macros = {
      __rate_interval: `${rate}s`, __interval: `${stepSeconds}s`, __interval_ms: String(stepSeconds * 1000),
      __range: `${rangeSeconds}s`, __range_s: String(rangeSeconds), __range_ms: String(rangeSeconds * 1000),
    };
    const filled = expression.replace(/\$(__\w+)|\$\{(__\w+)\}/g, (whole, plain, braced) => macros[plain ?? braced] ?? whole);
    return getTemplateSrv().replace(filled, scopedVars, matching);
  }

  async get(path, parameters) {
    this.pending += 1;
    const answer = await fetch(`${this.url}/api/v1/${path}?${new URLSearchParams(parameters)}`)
      .then((response) => response.json()).finally(() => { this.pending -= 1; });
    if (answer.status !== 'success') {
      throw new Error(`${answer.errorType}: ${answer.error}`);
    }
    return answer;
  }

  query(request) {
    return from(Promise.all(request.targets.filter((target) => !target.hide).map((target) => this.answer(target, request)))
      .then((answers) => ({ data: answers.flat() })));
  }

  async answer(target, request) {
    const start = request.range.from.valueOf() / 1000;
    const end = request.range.to.valueOf() / 1000;
    const stepSeconds = Math.max(1, Math.round((request.intervalMs || 15000) / 1000));
    const rangeSeconds = Math.round(end - start);
    const query = this.resolved(target.expr, request.scopedVars, { stepSeconds, rangeSeconds });
    const { data, warnings, infos } = target.instant
      ? await this.get('query', { query, time: end })
      : await this.get('query_range', { query, start: Math.floor(start / stepSeconds) * stepSeconds, end, step: stepSeconds });
    this.asked.push({ query, warnings: warnings ?? [], infos: infos ?? [] });
    return target.format === 'table' ? [table(target, data.result, request)] : data.result.map((one) => series(target, one, query, { stepSeconds, request }));
  }

  async metricFindQuery(query, options = {}) {
    const text = typeof query === 'string' ? query : query.query;
    const scopedVars = options.scopedVars ?? {};
    const resolved = this.resolved(text, scopedVars, { stepSeconds: 60, rangeSeconds: 3600 });
    const range = options.range ? { start: options.range.from.valueOf() / 1000, end: options.range.to.valueOf() / 1000 } : {};
    const values = /^label_values\((?:(.*),)?\s*(\w+)\s*\)$/s.exec(resolved.trim());
    if (!values) {
      throw new Error(`only label_values() is understood, not ${text}`);
    }
    const match = values[1]?.trim() ? { 'match[]': values[1].trim() } : {};
    const { data } = await this.get(`label/${values[2]}/values`, { ...match, ...range });
    return data.map((one) => ({ text: one }));
  }

  async annotationQuery({ annotation, range }) {
    const start = range.from.valueOf() / 1000;
    const end = range.to.valueOf() / 1000;
    const step = Math.max(Number.parseInt(annotation.step ?? '60', 10), Math.ceil((end - start) / 10000));
    const query = this.resolved(annotation.expr, {}, { stepSeconds: step, rangeSeconds: Math.round(end - start) });
    const { data } = await this.get('query_range', { query, start: Math.floor(start / step) * step, end, step });
    return data.result.flatMap((one) => events(annotation, one, step));
  }
}

function series(target, { metric, values, value }, query, { stepSeconds, request }) {
  const points = values ?? [value];
  const named = target.legendFormat && target.legendFormat !== '__auto';
  const plain = Object.keys(metric).length === 0 ? query : undefined;
  const displayNameFromDS = named ? legend(getTemplateSrv().replace(target.legendFormat, request.scopedVars), metric) : plain;
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, config: { interval: stepSeconds * 1000 }, values: points.map(([at]) => at * 1000) },
      { name: 'Value', type: FieldType.number, labels: metric, config: { displayNameFromDS }, values: points.map(([, number]) => parsed(number)) },
    ],
  });
}

function table(target, result, request) {
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const several = request.targets.filter((one) => !one.hide).length > 1;
  return toDataFrame({
    refId: target.refId,
    fields: result.length === 0 ? [] : [
      { name: 'Time', type: FieldType.time, values: result.map(({ value }) => value[0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, config: { filterable: true }, values: result.map(({ metric }) => metric[label] ?? '') })),
      { name: several ? `Value #${target.refId}` : 'Value', type: FieldType.number, values: result.map(({ value }) => parsed(value[1])) },
    ],
  });
}

/** One event for each unbroken run of values above zero; with `useValueForTime` one for each value, which then is its time. */
function events(annotation, { metric, values }, step) {
  const event = (time, timeEnd) => ({
    time, timeEnd, title: legend(annotation.titleFormat ?? '', metric), text: legend(annotation.textFormat ?? '', metric),
    tags: [], isRegion: timeEnd > time, color: annotation.iconColor,
  });
  if (annotation.useValueForTime) {
    return [...new Set(values.map(([, value]) => Math.floor(parsed(value))))].map((time) => event(time, time));
  }
  const found = [];
  for (const [at] of values.filter(([, value]) => parsed(value) > 0)) {
    const last = found.at(-1);
    if (last && at * 1000 - last.timeEnd <= step * 1000) {
      last.timeEnd = at * 1000;
      last.isRegion = true;
    } else {
      found.push(event(at * 1000, at * 1000));
    }
  }
  return found;
}

const legend = (format, labels) => format.replace(/{{\s*([^}\s]+)\s*}}/g, (_, label) => labels[label] ?? '');
const parsed = (text) => ({ '+Inf': Infinity, '-Inf': -Infinity })[text] ?? Number(text);
