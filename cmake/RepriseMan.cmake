# Man pages from each program's --help, by help2man; where it is missing (a host that only runs), or programs are for
# another architecture, none are made.
find_program(HELP2MAN help2man)

# reprise_man(PROGRAM "one line" [SUBCOMMAND ...])
function(reprise_man program line)
    install(TARGETS ${program})
    if(NOT HELP2MAN OR CMAKE_CROSSCOMPILING)
        return()
    endif()
    set(pages)
    foreach(command "" ${ARGN})
        string(REPLACE ";" "-" page "${program};${command}")
        string(REGEX REPLACE "-$" "" page ${page})
        set(file ${PROJECT_BINARY_DIR}/man/${page}.1)
        add_custom_command(OUTPUT ${file} VERBATIM
            DEPENDS ${program}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
            COMMAND ${HELP2MAN} --no-info --no-discard-stderr --version-string=${PROJECT_VERSION}
                --name=${line} --help-option "${command} --help" --output ${file} $<TARGET_FILE:${program}>)
        list(APPEND pages ${file})
    endforeach()
    add_custom_target(man-${program} ALL DEPENDS ${pages})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()
