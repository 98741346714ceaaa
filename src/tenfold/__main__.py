from tenfold.cli import main

main()
