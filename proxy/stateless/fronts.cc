#include "proxy/stateless/fronts.hh"

#include "core/base/error.hh"
#include "proxy/stateless/bpf/bpf_front.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>

namespace reprise::proxy {

std::unique_ptr<Front> make_front(const StatelessOptions& options) {
    if (options.front == FrontKind::kBpf) {
        return std::make_unique<BpfFront>(options);
    }
    throw UsageError("--front reference: this build has no such front");
}

} // namespace reprise::proxy
