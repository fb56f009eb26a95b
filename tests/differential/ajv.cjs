// Our evaluator against ajv on generated schemas and values, for the keywords that both know. Objects always say
// additionalProperties, since ours are closed without it, and numbers are integers, since ours are nothing else.
//     node ajv.cjs EVALUATE COUNT SEED
'use strict';
const { spawnSync } = require('child_process');
const { createRequire } = require('module');
const path = require('path');

function load(name) {
	for (const dir of (process.env.NODE_PATH || '').split(':').concat(process.cwd() + '/node_modules')) {
		try {
			return createRequire(path.join(dir, 'x.js'))(name);
		} catch (e) {
			continue;
		}
	}
	console.log(`skipped: no ${name} (tests/clients/node/fetch . brings it, or NODE_PATH)`);
	process.exit(77);
}
const Ajv = load('ajv/dist/2020').default;

let state = BigInt(process.argv[4] || 1) * 0x9e3779b97f4a7c15n & 0xffffffffffffffffn | 1n;
function draw(n) {
	state ^= state << 13n & 0xffffffffffffffffn;
	state ^= state >> 7n;
	state ^= state << 17n & 0xffffffffffffffffn;
	return Number((state >> 33n) % BigInt(n));
}
const pick = list => list[draw(list.length)];
const chance = percent => draw(100) < percent;

const keys = ['a', 'b', 'cc', 'd-e', 'f.g'];
const texts = ['', 'a', 'ab', 'abc', 'b', 'cap-x', '\n', 'a\nb', '日本', '😀', '0', '12', ' '];
const patterns = ['^a.*$', '^[a-c]{1,2}$', '^(a|b)$', '^.$', '^[^a]*$', '^\\d+$', '^(?!a).*$', '^cap-[a-z]+$', '^\\s$', '^$'];
const integers = [0, 1, -1, 2, 3, 10, 1000000, -5, 9007199254740991];
const types = ['null', 'boolean', 'integer', 'string', 'array', 'object'];

function value(depth) {
	const kind = pick(depth > 0 ? types.concat(['array', 'object', 'object']) : types.slice(0, 4));
	switch (kind) {
	case 'null':
		return null;
	case 'boolean':
		return chance(50);
	case 'integer':
		return pick(integers);
	case 'string':
		return pick(texts);
	case 'array':
		return Array.from({ length: draw(4) }, () => value(depth - 1));
	}
	const o = {};
	for (let n = draw(4); n > 0; n--)
		o[pick(keys)] = value(depth - 1);
	return o;
}

function schema(depth) {
	if (depth <= 0 || chance(10))
		return pick([true, true, true, false, {}, { type: pick(types) }, { const: value(1) }].filter(s => s !== undefined).map(close));
	const s = {};
	if (chance(50))
		s.type = chance(70) ? pick(types) : [...new Set([pick(types), pick(types)])];
	const may = type => s.type === undefined || [].concat(s.type).includes(type);
	if (chance(10))
		s.enum = [value(1), value(1), value(1)];
	if (chance(5))
		s.const = value(1);
	if (may('string') && chance(30))
		s.pattern = pick(patterns);
	if (may('string') && chance(20)) {
		s.minLength = draw(3);
		s.maxLength = s.minLength + draw(3);
	}
	if (may('integer') && chance(30)) {
		s.minimum = draw(4) - 2;
		s.maximum = s.minimum + draw(5);
	}
	if (may('array') && chance(30)) {
		if (chance(60))
			s.items = schema(depth - 1);
		if (chance(30))
			s.contains = schema(depth - 1);
		if (chance(30))
			s.minItems = draw(2);
		if (chance(30))
			s.maxItems = (s.minItems || 0) + draw(4);
	}
	if (may('object') && chance(50)) {
		if (chance(70)) {
			s.properties = {};
			for (let n = draw(4); n > 0; n--)
				s.properties[pick(keys)] = schema(depth - 1);
		}
		if (chance(30))
			s.patternProperties = { [pick(['^[a-c]+$', '^.*[.-].*$', '^b$'])]: schema(depth - 1) };
		if (chance(20))
			s.propertyNames = pick([{ pattern: '^[a-z]+$' }, { enum: ['a', 'b', 'cc'] }, { maxLength: 1 }]);
		if (chance(20))
			s.maxProperties = draw(4);
		s.additionalProperties = pick([true, false, true, schema(depth - 2)]);
		if (chance(30)) {
			const names = [...new Set([pick(keys), pick(keys)])];
			if (s.additionalProperties !== false)
				s.required = names;
		}
	}
	if (chance(10))
		s.anyOf = [schema(depth - 1), schema(depth - 1)];
	if (chance(10))
		s.allOf = [schema(depth - 1), schema(depth - 1)];
	if (chance(10))
		s.not = schema(depth - 1);
	return close(s);
}

function close(s) {
	const words = ['properties', 'required', 'patternProperties', 'propertyNames', 'maxProperties'];
	if (typeof s === 'object' && s.additionalProperties === undefined &&
		([].concat(s.type).includes('object') || words.some(w => w in s)))
		s.additionalProperties = chance(70);
	return s;
}

const count = Number(process.argv[3] || 20000);
const ajv = new Ajv({ strict: false, validateFormats: false });
const cases = Array.from({ length: count }, () => ({ schema: schema(3), value: value(3) }));
const run = spawnSync(process.argv[2], { input: cases.map(c => JSON.stringify(c)).join('\n') + '\n', maxBuffer: 1 << 28 });
if (run.status !== 0) {
	console.log(`evaluate: exit ${run.status}`);
	process.exit(1);
}
const ours = run.stdout.toString().trim().split('\n');
let differ = 0, valid = 0;
for (let i = 0; i < count; i++) {
	const theirs = ajv.compile(cases[i].schema)(cases[i].value) ? '1' : '0';
	valid += theirs === '1';
	if (ours[i] === theirs)
		continue;
	if (++differ <= 10)
		console.log(`ajv ${theirs}, ours ${ours[i]}: ${JSON.stringify(cases[i])}`);
}
console.log(`ajv: ${count} schemas and values, ${valid} valid, ${differ} differ`);
process.exit(differ === 0 && valid > 0 && valid < count ? 0 : 1);
