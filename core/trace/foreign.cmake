# Traces of other tools that need libraries of their own: dnstap (frame streams, protobuf), C-DNS (CBOR).
add_library(reprise_dnstap STATIC)
target_sources(reprise_dnstap PRIVATE dnstap.proto)
target_link_libraries(reprise_dnstap PUBLIC protobuf::libprotobuf)
target_include_directories(reprise_dnstap SYSTEM PUBLIC ${PROJECT_BINARY_DIR})
protobuf_generate(TARGET reprise_dnstap LANGUAGE cpp)

target_sources(reprise_trace
    PRIVATE cdns_block.cc cdns_cbor.cc cdns_message.cc cdns_source.cc dnstap_source.cc recent_queries.cc
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
    FILES cdns_block.hh cdns_cbor.hh cdns_message.hh cdns_source.hh dnstap_source.hh recent_queries.hh)
target_link_libraries(reprise_trace PRIVATE reprise_dnstap PkgConfig::cbor PkgConfig::fstrm)

reprise_test(foreign_test LABEL unit LIBRARIES reprise_trace PkgConfig::fstrm reprise_dnstap
    SOURCES cdns_cbor_test.cc cdns_source_test.cc dnstap_source_test.cc test_packets.cc)
reprise_test(foreign_data_test LABEL unit LIBRARIES reprise_trace SOURCES foreign_data_test.cc)
if(BUILD_TESTING)
    target_compile_definitions(foreign_data_test
        PRIVATE REPRISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endif()
foreach(form IN ITEMS cdns dnstap)
    reprise_fuzz(reader_${form} LIBRARIES reprise_trace SOURCES reader_${form}_fuzz.cc)
endforeach()
