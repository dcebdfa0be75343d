#include "proxy/stateless/fronts.hh"

#include "core/base/error.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>

namespace reprise::proxy {

std::unique_ptr<Front> make_front(const StatelessOptions& options) {
    if (options.front == FrontKind::kBpf) {
        throw UsageError("--front bpf: this build has no such front; give --front reference");
    }
    throw UsageError("--front reference: this build has no such front");
}

} // namespace reprise::proxy
