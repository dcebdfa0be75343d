#include "proxy/delay/delay_model.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/mix.hh"
#include "proxy/delay/rtt_table.hh"

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise::proxy {

PathModel::PathModel(DelayPlan plan)
    : plan_(std::move(plan)), state_(mix_bits(plan_.seed ^ mix_bits(plan_.salt))) {}

DrawnDelay PathModel::draw(const IpAddress& far) {
    const Path path = path_to(far);
    if (path.loss > 0 && next_unit() < path.loss) {
        return {.delay = 0, .lost = true};
    }
    auto rtt = static_cast<double>(path.rtt);
    if (path.jitter > 0) {
        rtt += static_cast<double>(path.jitter) * (2 * next_unit() - 1);
    }
    return {.delay = std::max<Nanoseconds>(std::llround(rtt * plan_.share), 0), .lost = false};
}

Path PathModel::path_to(const IpAddress& far) const {
    if (plan_.table) {
        if (const Path* found = plan_.table->find(far)) {
            return *found;
        }
    }
    Path path = plan_.usual;
    if (plan_.distribution) {
        path.rtt = plan_.distribution->quantile(unit_of(address_hash(far, plan_.seed)));
    }
    return path;
}

double PathModel::next_unit() {
    state_ += kGoldenStep;
    return unit_of(mix_bits(state_));
}

} // namespace reprise::proxy
